#include "netboot/http/outbox.hpp"

#include <utility>

namespace ductl::http {

void Outbox::put(std::string text) {
  const std::lock_guard lock(mutex_);
  if (lost_ || text.empty()) return;
  queued_bytes_ += text.size();
  queue_.push_back(std::move(text));
}

bool Outbox::put_when_room(std::string text) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return gone_ || queued_bytes_ < kQueuedBytesMax; });
  if (gone_) return false;
  queued_bytes_ += text.size();
  queue_.push_back(std::move(text));
  return true;
}

bool Outbox::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool Outbox::take(std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
    text = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= text.size();
  }
  changed_.notify_all();
  return true;
}

bool Outbox::empty() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

void Outbox::mark_gone() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
}

void Outbox::mark_lost() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = lost_ = true;
    queue_.clear();
    queued_bytes_ = 0;
  }
  changed_.notify_all();
}

} // namespace ductl::http
