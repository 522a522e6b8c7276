// One generation on a thread of its own, so that the thread with the connection can watch it.
#pragma once

#include "engine/session/generator.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ductl::engine {

// Used by one thread, which the generator never waits for: text is collected until it is taken.
class GenerationTask {
public:
  struct News {
    std::string text; // whole characters; since the last news
    bool done = false;
  };

  GenerationTask(Generator& generator, GenerateRequest request); // starts it
  ~GenerationTask();                                             // cancels it and waits for its end
  GenerationTask(const GenerationTask&) = delete;
  GenerationTask& operator=(const GenerationTask&) = delete;

  // Returns when there is text or the end, or after `timeout` with neither.
  [[nodiscard]] News wait(std::chrono::milliseconds timeout);
  void cancel();                                                // returns at once; the end comes as news
  [[nodiscard]] const Expected<GenerateResult>& result() const; // after the end

private:
  void run(Generator& generator, const GenerateRequest& request);

  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool done_ = false;
  Expected<GenerateResult> result_;
  std::thread thread_;
};

} // namespace ductl::engine
