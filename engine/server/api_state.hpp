// What the routes share: whether there is a model, how many generations are under way, what the last one cost.
#pragma once

#include "engine/session/generator.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace ductl::engine {

class ApiState {
public:
  // --- the model ---
  void set_stage(std::string stage);
  void set_generator(Generator& generator) { generator_.store(&generator, std::memory_order_release); }
  [[nodiscard]] Generator* generator() const { return generator_.load(std::memory_order_acquire); } // null while loading
  [[nodiscard]] std::string stage() const;

  // --- generations ---
  enum class Outcome { Answered, Failed, Cancelled };
  struct Counts {
    std::uint64_t answered = 0, failed = 0, cancelled = 0, refused = 0;
    int running = 0; // queued ones too
  };
  // A place among `places`; false (and counted as refused) when all are taken. Each true is followed by one leave().
  [[nodiscard]] bool enter(int places);
  void leave(Outcome outcome, const GenerationStats* stats); // stats: of an answer, else null
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] std::optional<GenerationStats> last() const;

private:
  std::atomic<Generator*> generator_{nullptr};
  mutable std::mutex mutex_;
  std::string stage_ = "starting";
  Counts counts_;
  std::optional<GenerationStats> last_;
};

} // namespace ductl::engine
