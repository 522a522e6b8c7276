// One writer at a time for a flock: flock(2) on the state folder's lock file. Given up by the kernel when the process ends,
// however it ends; a holder that ends by itself removes the file. It holds the pid of the holder, for the message that a second
// one gets.
#pragma once

#include "agent/client/state_folder.hpp"

#include <utility>

namespace ductl::reconcile {

class StateLock {
public:
  // kState, naming the holder, when somebody else has it. Does not wait.
  [[nodiscard]] static Expected<StateLock> take(const agent::StateFolder& folder);
  ~StateLock();
  StateLock(StateLock&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), held_(std::exchange(other.held_, false)), file_(std::move(other.file_)) {}
  StateLock& operator=(StateLock&&) = delete;

private:
  StateLock(int fd, std::filesystem::path file) : fd_(fd), file_(std::move(file)) {}
  int fd_;
  bool held_ = false; // the file is ours to remove
  std::filesystem::path file_;
};

} // namespace ductl::reconcile
