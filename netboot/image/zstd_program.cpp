#include "netboot/image/zstd_program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::image {
namespace {

tl::unexpected<Error> refuse(const std::string& why) {
  return fail(ErrorCode::kImageFile, "the initramfs cannot be compressed: " + why, "zstd", "install it: apt-get install zstd");
}

// A file in memory, gone with this object.
class MemoryFile {
public:
  MemoryFile() : descriptor_(::memfd_create("initramfs", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

  [[nodiscard]] bool fill(std::string_view bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t written = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (written < 0 && errno != EINTR) return false;
      done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    }
    return true;
  }
  [[nodiscard]] bool read(std::string& bytes) const {
    const off_t size = ::lseek(descriptor_, 0, SEEK_END);
    if (size < 0) return false;
    bytes.resize(static_cast<std::size_t>(size));
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (count == 0 || (count < 0 && errno != EINTR)) return false;
      done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
    return true;
  }

private:
  int descriptor_;
};

// The program's exit status; -1 with errno when it could not be started.
int run_zstd(int in, int out, std::size_t bytes) {
  std::string size = fmt::format("--stream-size={}", bytes);
  std::string words[] = {"zstd", "-q", "-19", "--single-thread", "-c", std::move(size)};
  char* arguments[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t child = -1;
  const int cause = ::posix_spawnp(&child, "zstd", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  errno = cause;
  if (cause != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

Expected<std::string> compress_zstd(std::string_view bytes) {
  const MemoryFile in, out;
  if (in.descriptor() < 0 || out.descriptor() < 0 || !in.fill(bytes)) return refuse(std::strerror(errno));
  const int status = run_zstd(in.descriptor(), out.descriptor(), bytes.size());
  if (status < 0) return refuse(fmt::format("the program does not start: {}", std::strerror(errno)));
  if (status > 0) return refuse(fmt::format("the program ended with status {}", status));
  std::string compressed;
  if (!out.read(compressed)) return refuse(std::strerror(errno));
  return compressed;
}

} // namespace ductl::image
