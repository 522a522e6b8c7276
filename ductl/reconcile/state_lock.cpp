#include "ductl/reconcile/state_lock.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::reconcile {
namespace {

constexpr int kAttemptsMax = 8; // each lost one means that a holder removed the file between our open and lock

std::string holder_of(int fd) {
  char text[32] = {};
  const ssize_t got = pread(fd, text, sizeof text - 1, 0);
  return got > 0 ? fmt::format(" (process {})", std::atoi(text)) : std::string();
}

bool is_still_the_file(int fd, const std::filesystem::path& file) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && stat(file.c_str(), &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

} // namespace

Expected<StateLock> StateLock::take(const agent::StateFolder& folder) {
  const std::filesystem::path file = folder.lock();
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
      return fail(ErrorCode::kState, fmt::format("cannot open the lock file: {}", std::strerror(errno)), file.string(),
                  "check the rights of the state folder");
    }
    StateLock lock(fd, file);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      return fail(ErrorCode::kState, "another ductl is working on this flock" + holder_of(fd), file.string(),
                  "wait until it has ended, then try again");
    }
    if (!is_still_the_file(fd, file)) continue;
    lock.held_ = true;
    const std::string pid = std::to_string(getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
      return fail(ErrorCode::kState, fmt::format("cannot write the lock file: {}", std::strerror(errno)), file.string(),
                  "check the free space");
    }
    return lock;
  }
  return fail(ErrorCode::kState, "the lock file keeps changing", file.string(), "try again");
}

StateLock::~StateLock() {
  if (held_) unlink(file_.c_str()); // before the lock goes: whoever waits for it makes the file anew
  if (fd_ >= 0) close(fd_);
}

} // namespace ductl::reconcile
