#include "ductl/power/launch.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::power {
namespace {

constexpr std::size_t kReadyLineMax = 64 * 1024;
constexpr std::chrono::milliseconds kLook{100}; // for an interruption, while a child is waited for
constexpr const char* kFreeSomething = "end other programs, or raise the limits that `ulimit -a` shows, and try again";
constexpr int kAboveAll = 16; // descriptors of ours are moved up here before they are laid on 0..4

class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

private:
  int fd_;
};

struct ChildPlan { // everything the child needs, made before the fork: between fork and exec only system calls are allowed
  const char* program = nullptr;
  char* const* argv = nullptr;
  int null = -1, output = -1, secret = -1, ready = -1, report = -1;
};

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2}) signal(number, SIG_DFL);
}

[[noreturn]] void become(const ChildPlan& plan) {
  reset_signals();
  umask(077);
  if (chdir("/") != 0) _exit(126);
  const int ready = fcntl(plan.ready, F_DUPFD, kAboveAll);
  const int secret = plan.secret < 0 ? -1 : fcntl(plan.secret, F_DUPFD, kAboveAll);
  const int output = fcntl(plan.output, F_DUPFD, kAboveAll);
  const int null = fcntl(plan.null, F_DUPFD, kAboveAll);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (secret >= 0) {
    dup2(secret, kSecretDescriptor);
  } else {
    close(kSecretDescriptor);
  }
  dup2(ready, kReadyDescriptor);
  close_range(kReadyDescriptor + 1, ~0u, 0);
  execv(plan.program, plan.argv);
  _exit(127);
}

// The first child: makes a session, starts the real one and tells its pid. Never returns.
[[noreturn]] void detach(const ChildPlan& plan) {
  setsid();
  const pid_t pid = fork();
  if (pid == 0) become(plan);
  const ssize_t written = write(plan.report, &pid, sizeof pid);
  _exit(pid > 0 && written == sizeof pid ? 0 : 1);
}

Expected<int> secret_file(const std::string& secret) {
  const int fd = memfd_create("ductl-secret", MFD_CLOEXEC);
  if (fd < 0)
    return fail(ErrorCode::kPower, fmt::format("cannot make a memory file: {}", std::strerror(errno)), {}, kFreeSomething);
  if (write(fd, secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()) || lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    return fail(ErrorCode::kPower, "cannot write a memory file", {}, kFreeSomething);
  }
  return fd;
}

Expected<pid_t> fork_detached(const ChildPlan& base) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0)
    return fail(ErrorCode::kPower, fmt::format("cannot make a pipe: {}", std::strerror(errno)), {}, kFreeSomething);
  const Descriptor from(pipe_ends[0]);
  Descriptor to(pipe_ends[1]);
  ChildPlan plan = base;
  plan.report = to.get();
  const pid_t middle = fork();
  if (middle == 0) detach(plan);
  if (middle < 0)
    return fail(ErrorCode::kPower, fmt::format("cannot fork: {}", std::strerror(errno)), {}, "free memory or processes");
  to.reset(-1);
  pid_t pid = -1;
  ssize_t got;
  do got = read(from.get(), &pid, sizeof pid);
  while (got < 0 && errno == EINTR);
  while (waitpid(middle, nullptr, 0) < 0 && errno == EINTR) {}
  if (got != sizeof pid || pid <= 0) return fail(ErrorCode::kPower, "cannot fork", {}, "free memory or processes");
  return pid;
}

// What a crash printed last, for the error; control characters are left to whoever prints it.
std::string last_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line, last;
  for (int lines = 0; lines < 10'000 && std::getline(in, line); ++lines) {
    if (!line.empty()) last = line;
  }
  return last.substr(0, 300);
}

ErrorCode code_of(const std::string& name) {
  int number = 0;
  if (name.size() != 5 || name[0] != 'D') return ErrorCode::kInternal;
  std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return static_cast<ErrorCode>(number);
}

} // namespace

ReadyPipe::~ReadyPipe() {
  if (fd_ >= 0) close(fd_);
}

Expected<Launched> launch(const LaunchSpec& spec) {
  if (access(spec.program.c_str(), X_OK) != 0) {
    return fail(ErrorCode::kPower, fmt::format("cannot run the program: {}", std::strerror(errno)), spec.program.string(),
                "build or install all of ductl's programs into one folder");
  }
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor output(open(spec.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (null.get() < 0 || output.get() < 0) {
    return fail(ErrorCode::kState, fmt::format("cannot write: {}", std::strerror(errno)), spec.output.string(),
                "check the rights of the state folder");
  }
  Descriptor secret;
  if (!spec.secret.empty()) {
    const auto fd = secret_file(spec.secret);
    if (!fd) return tl::unexpected(fd.error());
    secret.reset(*fd);
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return fail(ErrorCode::kPower, fmt::format("cannot make a pipe: {}", std::strerror(errno)), {}, kFreeSomething);
  ReadyPipe ready(ends[0]);
  const Descriptor ready_in(ends[1]);

  std::vector<std::string> words{spec.program.string()};
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const ProgramFile program = program_file(spec.program); // a build that replaces it from here on counts as a new one
  const auto pid = fork_detached({.program = words[0].c_str(),
                                  .argv = argv.data(),
                                  .null = null.get(),
                                  .output = output.get(),
                                  .secret = secret.get(),
                                  .ready = ready_in.get()});
  if (!pid) return tl::unexpected(pid.error());
  // Gone already: the ready pipe says so, with its reason. A record without a start time matches no process.
  ProcessRecord record = record_of(*pid).value_or(ProcessRecord{.pid = *pid});
  record.program = program;
  return Launched{std::move(record), std::move(ready)};
}

std::optional<Expected<ReadyReport>> parse_ready_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("ready") || !json["ready"].is_boolean()) return std::nullopt;
  const auto text = [](const nlohmann::json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string();
  };
  if (!json["ready"].get<bool>()) {
    const nlohmann::json error = json.contains("error") ? json["error"] : nlohmann::json::object();
    return Expected<ReadyReport>(
        fail(code_of(text(error, "code")), text(error, "message"), text(error, "place"), text(error, "next")));
  }
  const auto port = [&](const char* key) -> std::uint16_t {
    return json.contains(key) && json[key].is_number_unsigned() && json[key].get<std::uint64_t>() <= 0xffff
               ? json[key].get<std::uint16_t>()
               : std::uint16_t{0};
  };
  return Expected<ReadyReport>(ReadyReport{port("control_port"), port("data_port"), port("api_port")});
}

Expected<ReadyReport> await_ready(const ReadyPipe& pipe, std::chrono::milliseconds limit, ErrorCode code, const std::string& who,
                                  const std::filesystem::path& log, const std::filesystem::path& output,
                                  const std::function<bool()>& interrupted) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string line;
  while (line.size() < kReadyLineMax && line.find('\n') == std::string::npos) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poller{pipe.fd(), POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&poller, 1, static_cast<int>(std::min(left, kLook).count())) : 0;
    if (ready <= 0 && interrupted())
      return fail(ErrorCode::kCancelled, "interrupted", {}, "the same command goes on where this one stopped");
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && left > kLook) continue;
    if (ready == 0) {
      return fail(code, fmt::format("{} did not become ready within {} s", who, limit.count() / 1000), log.string(),
                  "read the log; a slow machine may need a longer limits.boot_timeout_s");
    }
    char part[4096];
    const ssize_t got = read(pipe.fd(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(part, static_cast<std::size_t>(got));
  }
  auto report = parse_ready_line(line.substr(0, line.find('\n')));
  if (report && *report) return **report;
  if (report) {
    Error error = report->error();
    error.message = who + ": " + error.message;
    if (error.place.empty()) error.place = log.string();
    return tl::unexpected(std::move(error));
  }
  const std::string said = last_line(output);
  return fail(code, fmt::format("{} ended before it was ready{}{}", who, said.empty() ? "" : ": ", said), log.string(),
              "read the log, then run `ductl up` again");
}

Expected<std::filesystem::path> sibling_program(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(ErrorCode::kInternal, "cannot tell where this program lies: " + error.message(), "/proc/self/exe",
                "ductl needs a mounted /proc");
  return self.parent_path() / name;
}

} // namespace ductl::power
