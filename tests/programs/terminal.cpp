#include "tests/programs/terminal.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::test {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Words { // for exec: made before the fork
  explicit Words(std::vector<std::string> words) : text(std::move(words)) {
    for (std::string& word : text) pointers.push_back(word.data());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> text;
  std::vector<char*> pointers;
};

std::vector<std::string> environment_of(const ProgramOptions& options) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  all["TERM"] = "xterm";
  all["NO_COLOR"] = "1";
  for (const auto& [name, value] : options.environment) all[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : all) entries.push_back(name + "=" + value);
  return entries;
}

[[noreturn]] void become(int terminal, const char* folder, char* const* argv, char* const* environment) {
  setsid();
  ioctl(terminal, TIOCSCTTY, 0);
  for (int descriptor = 0; descriptor < 3; ++descriptor) dup2(terminal, descriptor);
  close_range(3, ~0u, 0);
  if (folder != nullptr && chdir(folder) != 0) _exit(127);
  execve(argv[0], argv, environment);
  _exit(127);
}

} // namespace

Terminal::Terminal(const std::vector<std::string>& argv, const ProgramOptions& options) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 80;
  if (openpty(&ours_, &theirs_, nullptr, nullptr, &size) != 0) throw std::runtime_error("there is no pseudo terminal");
  first_modes_ = modes();
  std::vector<std::string> words = argv;
  if (words.front().find('/') == std::string::npos) words.front() = std::string(DUCTL_BIN_DIR) + "/" + words.front();
  Words arguments(std::move(words)), environment(environment_of(options));
  const char* folder = options.folder.empty() ? nullptr : options.folder.c_str();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) become(theirs_, folder, arguments.pointers.data(), environment.pointers.data());
}

Terminal::~Terminal() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(ours_);
  close(theirs_);
}

void Terminal::type(const std::string& keys) const {
  // A line editor paints its prompt a moment before it takes keys one by one; a Ctrl-D before that is the terminal's own and is
  // lost.
  const auto whole_lines = [&] {
    termios modes{};
    return tcgetattr(theirs_, &modes) == 0 && (modes.c_lflag & ICANON) != 0;
  };
  for (int i = 0; keys == kCtrlD && i < 5000 && whole_lines(); ++i) usleep(1000);
  if (write(ours_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) throw std::runtime_error("cannot type");
}

void Terminal::read_some(std::chrono::milliseconds limit) {
  pollfd polled{ours_, POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(limit.count())) <= 0) return;
  std::array<char, 4096> buffer{};
  const ssize_t count = read(ours_, buffer.data(), buffer.size());
  if (count > 0) painted_.append(buffer.data(), static_cast<std::size_t>(count));
}

bool Terminal::wait_for(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  for (;;) {
    if (const std::size_t at = painted_.find(text, found_); at != std::string::npos) {
      found_ = at + text.size();
      return true;
    }
    if (SteadyClock::now() >= deadline) return false;
    read_some(std::chrono::milliseconds(50));
  }
}

std::string Terminal::modes() const {
  termios modes{};
  if (tcgetattr(theirs_, &modes) != 0) return "unknown";
  std::string text = fmt::format("{:o} {:o} {:o} {:o}", modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag);
  for (const cc_t key : modes.c_cc) text += fmt::format(" {}", key);
  return text;
}

void Terminal::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

int Terminal::wait(std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (SteadyClock::now() >= deadline) return -1;
    read_some(std::chrono::milliseconds(10));
  }
  ended_ = true;
  read_some(std::chrono::milliseconds(0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace ductl::test
