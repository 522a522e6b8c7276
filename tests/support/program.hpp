// Running the built programs from tests: argv, environment, standard input, a time limit; output and exit status back.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ductl::test {

struct ProgramResult {
  int status = -1; // exit code; 128 + signal when killed; -1 when it ran out of time (and was killed)
  std::string out, err;
};

struct ProgramOptions {
  std::map<std::string, std::string> environment; // added to this process's own
  std::string input;
  std::chrono::seconds limit{60};
  std::string folder; // working directory; empty = this one
};

// `argv[0]` without a slash is a program of the build's bin folder.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options = {});

// A program left running; killed (SIGKILL, by its pid) when this goes, if it still runs.
class RunningProgram {
public:
  RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Reads standard output until `text` has come; false when it ended or the limit passed before.
  [[nodiscard]] bool wait_for_output(const std::string& text, std::chrono::seconds limit);
  [[nodiscard]] ProgramResult wait(); // within the options' limit

private:
  bool read_some(std::chrono::milliseconds limit);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool ended_ = false;
  ProgramOptions options_;
  ProgramResult result_;
};

} // namespace ductl::test
