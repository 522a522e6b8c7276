// A program on a terminal of its own (a pseudo terminal): keys are typed, what is painted is read, its modes can be compared.
#pragma once

#include "tests/support/program.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>
#include <termios.h>

namespace ductl::test {

class Terminal {
public:
  // 24 lines of 80, TERM=xterm, no colours. Throws std::runtime_error when there is no pseudo terminal.
  explicit Terminal(const std::vector<std::string>& argv, const ProgramOptions& options = {});
  ~Terminal(); // kills what still runs, by its pid
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const;
  // Reads until `text` is painted after what the last call found. False when it did not come in time.
  [[nodiscard]] bool wait_for(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(20));
  [[nodiscard]] const std::string& painted() const { return painted_; }
  [[nodiscard]] std::string modes() const;                                      // of the terminal, as comparable text
  [[nodiscard]] const std::string& first_modes() const { return first_modes_; } // before the program ran
  void signal(int number) const;
  [[nodiscard]] int wait(std::chrono::seconds limit = std::chrono::seconds(20)); // as ProgramResult::status

private:
  void read_some(std::chrono::milliseconds limit);

  int ours_ = -1, theirs_ = -1; // the second stays open, so that the terminal outlives the program
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string first_modes_;
  std::string painted_;
  std::size_t found_ = 0;
};

// Ctrl-C, Ctrl-D, the arrow up and Enter as a terminal sends them.
inline constexpr const char* kCtrlC = "\x03";
inline constexpr const char* kCtrlD = "\x04";
inline constexpr const char* kUp = "\x1b[A";
inline constexpr const char* kEnter = "\r";

} // namespace ductl::test
