// One writer at a time for a flock: flock(2) on the state folder's lock file. Given up by the kernel when the process ends,
// however it ends. The file holds the pid of the holder, for the message that a second one gets.
#pragma once

#include "agent/client/state_folder.hpp"

namespace ductl::reconcile {

class StateLock {
public:
  // kState, naming the holder, when somebody else has it. Does not wait.
  [[nodiscard]] static Expected<StateLock> take(const agent::StateFolder& folder);
  ~StateLock();
  StateLock(StateLock&& other) noexcept : fd_(other.fd_), file_(std::move(other.file_)) { other.fd_ = -1; }
  StateLock& operator=(StateLock&&) = delete;

  void remove_file(); // while it is held: the next one makes it anew

private:
  StateLock(int fd, std::filesystem::path file) : fd_(fd), file_(std::move(file)) {}
  int fd_;
  std::filesystem::path file_;
};

} // namespace ductl::reconcile
