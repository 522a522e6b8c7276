#include "ductl/power/foreground.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::power {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kAskEvery_ms = 100;
constexpr std::chrono::seconds kKillAfter{5};

int spawn(pid_t& pid, const char* program, char* const* argv, int output) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE); // ignored in ductl, and what is ignored stays so across exec
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output != STDOUT_FILENO) posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const int error = posix_spawn(&pid, program, &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

int wait_for(pid_t pid, const std::function<bool()>& interrupted) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  std::optional<Clock::time_point> terminated;
  for (;;) {
    pollfd poller{pidfd, POLLIN, 0};
    poll(&poller, 1, kAskEvery_ms);
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      close(pidfd);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (!terminated && interrupted()) {
      kill(pid, SIGTERM); // ours, and not waited for yet: the pid can't be anybody else's
      terminated = Clock::now();
    }
    if (terminated && Clock::now() > *terminated + kKillAfter) kill(pid, SIGKILL);
  }
}

Expected<int> run_with_output(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                              const std::function<bool()>& interrupted, int output) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = spawn(pid, program.c_str(), argv.data(), output); error != 0) {
    return fail(ErrorCode::kEngineStart, fmt::format("cannot run the program: {}", std::strerror(error)), program.string(),
                "build or install all of ductl's programs into one folder");
  }
  return wait_for(pid, interrupted);
}

std::string text_of(int file) {
  std::string text;
  char part[4096];
  lseek(file, 0, SEEK_SET);
  for (ssize_t count = read(file, part, sizeof part); count > 0; count = read(file, part, sizeof part))
    text.append(part, static_cast<std::size_t>(count));
  return text;
}

} // namespace

Expected<int> run_foreground(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                             const std::function<bool()>& interrupted) {
  return run_with_output(program, arguments, interrupted, STDOUT_FILENO);
}

// Into an unnamed memory file: nobody has to read while it writes.
Expected<Captured> run_captured(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                const std::function<bool()>& interrupted) {
  const int file = memfd_create("ductl-output", MFD_CLOEXEC);
  if (file < 0)
    return fail(ErrorCode::kEngineStart, fmt::format("no memory for a program's output: {}", std::strerror(errno)),
                program.string(), "end other programs");
  const auto code = run_with_output(program, arguments, interrupted, file);
  Captured captured{code.value_or(0), text_of(file)};
  close(file);
  if (!code) return tl::unexpected(code.error());
  return captured;
}

} // namespace ductl::power
