#include "engine/attention/lane_worker.hpp"

#include <cassert>
#include <utility>

namespace ductl::engine {

LaneWorker::LaneWorker(int lanes, std::function<void(int)> body) : body_(std::move(body)), pending_(std::size_t(lanes)) {
  queue_.reserve(std::size_t(lanes));
  thread_ = std::thread([this] { work(); });
}

LaneWorker::~LaneWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LaneWorker::submit(int lane) {
  {
    const std::lock_guard lock(mutex_);
    assert(!pending_[std::size_t(lane)]);
    pending_[std::size_t(lane)] = true;
    queue_.push_back(lane);
  }
  changed_.notify_all();
}

bool LaneWorker::done(int lane) {
  const std::lock_guard lock(mutex_);
  return !pending_[std::size_t(lane)];
}

void LaneWorker::wait(int lane) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !pending_[std::size_t(lane)]; });
}

void LaneWorker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const int lane = queue_.front();
    queue_.erase(queue_.begin());
    lock.unlock();
    body_(lane);
    lock.lock();
    pending_[std::size_t(lane)] = false;
    changed_.notify_all();
  }
}

} // namespace ductl::engine
