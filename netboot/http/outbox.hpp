// What a handler has written and the network thread has not yet sent. The handler's side blocks when it is full, which is
// the back-pressure of a slow peer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>

namespace ductl::http {

class Outbox {
public:
  static constexpr std::size_t kQueuedBytesMax = 256 * 1024;

  // Handler's side. put() never waits; put_when_room() waits for room and is false, dropping `text`, once the peer is gone.
  void put(std::string text);
  [[nodiscard]] bool put_when_room(std::string text);
  [[nodiscard]] bool gone() const;

  // Network side.
  [[nodiscard]] bool take(std::string& text); // false = empty
  [[nodiscard]] bool empty() const;
  void mark_gone(); // nobody reads a stream any more; what is queued may still go out
  void mark_lost(); // nothing can be sent: drops what is queued and all that follows

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool gone_ = false, lost_ = false;
};

} // namespace ductl::http
