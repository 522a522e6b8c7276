#include "engine/server/generation_task.hpp"

#include <cassert>
#include <utility>

namespace ductl::engine {

GenerationTask::GenerationTask(Generator& generator, GenerateRequest request)
    : thread_([this, &generator, request = std::move(request)] { run(generator, request); }) {}

GenerationTask::~GenerationTask() {
  cancel();
  thread_.join();
}

void GenerationTask::run(Generator& generator, const GenerateRequest& request) {
  GenerateCallbacks callbacks;
  callbacks.on_text = [this](std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_ += text;
    changed_.notify_one();
  };
  callbacks.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
  Expected<GenerateResult> result = generator.generate(request, callbacks);
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  done_ = true;
  changed_.notify_one();
}

GenerationTask::News GenerationTask::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return done_ || !text_.empty(); });
  return {std::exchange(text_, {}), done_};
}

void GenerationTask::cancel() { cancelled_.store(true, std::memory_order_relaxed); }

const Expected<GenerateResult>& GenerationTask::result() const {
  assert(done_);
  return result_;
}

} // namespace ductl::engine
