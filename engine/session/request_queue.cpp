#include "engine/session/request_queue.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace ductl::engine {
namespace {
constexpr std::chrono::milliseconds kCancelPoll{100};
}

Expected<RequestQueue::Turn> RequestQueue::enter(const std::function<bool()>& cancelled) {
  std::unique_lock lock(mutex_);
  if (busy_ && static_cast<int>(line_.size()) >= waiting_max_) {
    return fail(ErrorCode::kQueueFull, fmt::format("queue full: {} requests wait already", line_.size()), "", "try again later");
  }
  const std::uint64_t ticket = next_ticket_++;
  line_.push_back(ticket);
  while (busy_ || line_.front() != ticket) {
    changed_.wait_for(lock, kCancelPoll);
    if (!cancelled) continue;
    lock.unlock(); // may look at a socket
    const bool gone = cancelled();
    lock.lock();
    if (!gone) continue;
    line_.erase(std::find(line_.begin(), line_.end(), ticket));
    changed_.notify_all();
    return fail(ErrorCode::kCancelled, "cancelled while waiting in the queue");
  }
  line_.pop_front();
  busy_ = true;
  return Turn(this);
}

void RequestQueue::leave() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

int RequestQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(line_.size());
}

} // namespace ductl::engine
