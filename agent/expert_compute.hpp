// One request applied to the slices a duck has: gathers the tokens of each expert and runs the kernel over its slices.
//
// No I/O. The work is cut into units, a few slices of one expert, which threads take from a counter, each one unit ahead so that
// the end of the one fetches the head of the next. Every thread adds into sums of its own; they are integers and are added at
// the end, so the bits depend neither on the number of threads nor on who took what. With one thread that is the caller's.
#pragma once

#include "agent/crew.hpp"
#include "agent/kernels/expert.hpp"
#include "agent/store/slice_store.hpp"
#include "agent/wire/bytes.hpp"
#include "agent/wire/reply.hpp"
#include "agent/wire/request.hpp"
#include "inventory/clock.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ductl::agent {

class ExpertCompute {
public:
  static constexpr Duration kBetween = std::chrono::microseconds(100);

  // Starts the plan's threads. Allocates, as reserve() does where a layer is larger than those before; nothing else here does.
  ExpertCompute(const ExpertKernels& kernels, int tokens_max, const ThreadPlan& plan = {});
  ~ExpertCompute();
  void reserve(int hidden, const ActiveLayer& layer);

  // False when some token chooses an expert that the layer has not, or the same one twice.
  [[nodiscard]] bool gather(const wire::RequestView& request, const ActiveLayer& layer);
  // After gather(): fills guards and sums of `reply` (already cleared for the request's tokens). `between(now)` is called on this
  // thread so that the caller can take in frames: after units, at most every kBetween, or all the time where this thread computes
  // nothing. False = stop; then no thread touches the reply again and -1 is returned, else the number of slices applied.
  int run(const wire::RequestView& request, const ActiveIndex& index, int layer, int rung, wire::ReplyBuffer& reply,
          const std::function<Instant()>& now, const std::function<bool(Instant)>& between);

private:
  struct Chosen {
    std::uint16_t token;
    float weight;
  };
  struct Unit { // slices of one expert that a thread takes at once
    std::uint32_t expert, first, count;
  };
  struct Worker; // what a thread that computes has for itself

  void load_hidden(const wire::RequestView& request);
  void scale_fixed_point(const ActiveLayer& layer, int rung);
  void point_to_tokens();
  void cut_units(const ActiveLayer& layer);
  [[nodiscard]] int tokens_of(std::size_t expert) const { return static_cast<int>(first_[expert + 1] - first_[expert]); }
  [[nodiscard]] std::int32_t* sums_of(Worker& worker, int token) const;
  void begin(Worker& worker) const;
  template <class Between> void work(Worker& worker, const Between& between);
  void apply(Worker& worker, const Unit& unit, const std::byte* next) const;
  bool work_here(const std::function<Instant()>& now, const std::function<bool(Instant)>& between);
  int collect(wire::ReplyBuffer& reply);

  const ExpertKernels& kernels_;
  const int tokens_max_;
  const ThreadPlan plan_;
  std::size_t row_ = 0; // floats of one hidden state, with padding to 64 bytes
  wire::AlignedArray<float> hidden_states_, fixed_scale_;
  std::vector<std::uint32_t> first_; // [experts + 1] into chosen_
  std::vector<Chosen> chosen_;       // grouped by expert, tokens ascending
  std::vector<const float*> x_;      // [chosen]
  std::vector<float> weight_;        // [chosen]
  std::vector<std::int32_t> seen_;   // [experts] the last token that chose it
  // The work that is under way; written before the crew begins.
  std::vector<Unit> units_; // [unit_count_]
  std::uint32_t unit_count_ = 0;
  const ActiveLayer* layer_ = nullptr;
  wire::ReplyBuffer* reply_ = nullptr;
  weights::TileFormat format_ = weights::TileFormat::NineBit;
  int hidden_ = 0, tokens_ = 0, rung_ = 0;
  alignas(64) std::atomic<std::uint32_t> next_unit_{0};
  alignas(64) std::atomic<bool> stopped_{false};
  std::vector<std::unique_ptr<Worker>> workers_; // [threads]; the first adds into the reply itself
  Crew crew_;                                    // last: its threads use the others
};

} // namespace ductl::agent
