// One request applied to the slices a duck has: gathers the tokens of each expert and runs the kernel over its slices.
//
// No I/O; one thread. `between` is called after slices, at most every kBetween, so that the caller can take in frames.
#pragma once

#include "agent/kernels/expert.hpp"
#include "agent/store/slice_store.hpp"
#include "agent/wire/bytes.hpp"
#include "agent/wire/reply.hpp"
#include "agent/wire/request.hpp"
#include "inventory/clock.hpp"

#include <functional>
#include <span>
#include <vector>

namespace ductl::agent {

class ExpertCompute {
public:
  static constexpr Duration kBetween = std::chrono::microseconds(100);

  // Allocates; nothing else here does.
  ExpertCompute(const ExpertKernels& kernels, int tokens_max);
  void reserve(int hidden, int experts_max);

  // False when some token chooses an expert that the layer has not, or the same one twice.
  [[nodiscard]] bool gather(const wire::RequestView& request, const ActiveLayer& layer);
  // After gather(): fills guards and sums of `reply` (already cleared for the request's tokens). `between(now)` false = stop;
  // then the reply must not be touched again and -1 is returned, else the number of slices applied.
  int run(const wire::RequestView& request, const ActiveLayer& layer, int hidden, int rung, wire::ReplyBuffer& reply,
          const std::function<Instant()>& now, const std::function<bool(Instant)>& between);

private:
  struct Chosen {
    std::uint16_t token;
    float weight;
  };
  void load_hidden(const wire::RequestView& request);
  void scale_fixed_point(const ActiveLayer& layer, int rung);
  int prepare_job(std::size_t expert, wire::ReplyBuffer& reply);
  void apply_slices(std::span<const ActiveSlice> slices, const std::byte* next, int tokens, int hidden, int rung);
  // The first expert from `expert` on that is chosen and has slices here; -1: there is none.
  [[nodiscard]] int next_chosen(const ActiveLayer& layer, std::size_t expert) const;

  const ExpertKernels& kernels_;
  int tokens_max_;
  std::size_t row_ = 0; // floats of one hidden state, with padding to 64 bytes
  wire::AlignedArray<float> hidden_states_, scratch_, fixed_scale_;
  std::vector<std::uint32_t> first_; // [experts + 1] into chosen_
  std::vector<Chosen> chosen_;       // grouped by expert, tokens ascending
  std::vector<std::int32_t> seen_;   // [experts] the last token that chose it
  // One expert's job.
  std::vector<const float*> x_;
  std::vector<float> weight_;
  std::vector<std::int32_t*> y_;
  std::vector<std::uint16_t> token_;
  std::vector<std::uint64_t> slice_guard_, guard_; // of one slice by position; of the round by token
};

} // namespace ductl::agent
