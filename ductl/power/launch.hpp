// Starting a background process: a program of ours that detaches, says on a pipe when it is ready, and outlives us.
//
// The child is nobody's child here (double fork, own session), holds no descriptor of ours but the ones listed, starts in
// "/" with default signals, stdin from /dev/null, and stdout and stderr in `output` (which catches what a crash prints; the
// program's own log is elsewhere). A secret travels in an unnamed memory file that the child inherits: never in argv or
// the environment. Any thread.
#pragma once

#include "ductl/power/process_record.hpp"

#include <functional>
#include <vector>

namespace ductl::power {

inline constexpr int kSecretDescriptor = 3; // in the child
inline constexpr int kReadyDescriptor = 4;

struct LaunchSpec {
  std::filesystem::path program;
  std::vector<std::string> arguments; // name the descriptors above where the program wants them
  std::string secret = {};            // empty = descriptor 3 is not open
  std::filesystem::path output;
};

// The reading end of the ready pipe.
class ReadyPipe {
public:
  explicit ReadyPipe(int fd = -1) : fd_(fd) {}
  ~ReadyPipe();
  ReadyPipe(ReadyPipe&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ReadyPipe& operator=(ReadyPipe&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int fd() const { return fd_; }

private:
  int fd_;
};

struct Launched {
  ProcessRecord record; // ports not known yet
  ReadyPipe ready;
};
[[nodiscard]] Expected<Launched> launch(const LaunchSpec& spec);

struct ReadyReport {
  std::uint16_t control_port = 0, data_port = 0, api_port = 0;
};
// Waits for the one JSON line. {"ready":false} gives the child's own error; an end without a line or `limit` passing gives
// `code` with the log named; `interrupted` (asked ten times a second) turning true gives kCancelled. The caller stops the process
// after an error.
[[nodiscard]] Expected<ReadyReport> await_ready(const ReadyPipe& pipe, std::chrono::milliseconds limit, ErrorCode code,
                                                const std::string& who, const std::filesystem::path& log,
                                                const std::filesystem::path& output, const std::function<bool()>& interrupted);

// The line's meaning, apart from the pipe. Nothing = not a report.
[[nodiscard]] std::optional<Expected<ReadyReport>> parse_ready_line(const std::string& line);

// `name` in the folder of the running program: all of ours are installed side by side.
[[nodiscard]] Expected<std::filesystem::path> sibling_program(const std::string& name);

} // namespace ductl::power
