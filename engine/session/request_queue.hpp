// One at a time, in order of arrival, with a bound on how many may wait. Thread-safe.
#pragma once

#include "inventory/error.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace ductl::engine {

class RequestQueue {
public:
  // Held by the one whose turn it is; the next in line goes on when it is destroyed.
  class Turn {
  public:
    explicit Turn(RequestQueue* queue) : queue_(queue) {}
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_ != nullptr) queue_->leave();
    }

  private:
    RequestQueue* queue_;
  };

  explicit RequestQueue(int waiting_max) : waiting_max_(waiting_max) {}
  // Blocks until it is the caller's turn. kQueueFull when too many wait already; kCancelled when `cancelled`
  // (asked a few times a second; may be empty) says so first.
  [[nodiscard]] Expected<Turn> enter(const std::function<bool()>& cancelled);
  [[nodiscard]] int waiting() const;

private:
  void leave();

  const int waiting_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> line_; // tickets that wait, in order
  std::uint64_t next_ticket_ = 0;
  bool busy_ = false;
};

} // namespace ductl::engine
