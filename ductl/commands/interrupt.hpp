// Ctrl-C, Ctrl-\, SIGTERM and a closed terminal (SIGHUP) as a question that loops ask: once = finish the current step and stop,
// twice = at once.
#pragma once

#include "ductl/commands/command.hpp"

namespace ductl::commands {

enum class SecondSignal {
  Ends,   // the process, at once, with 128 + the signal's number
  Ignored // for loops that always answer the first one, and that must put things back in order: a terminal, a temporary flock
};

// While one lives, the first of these signals is only remembered; a SIGHUP that was ignored before (nohup) stays so. The handlers
// of before come back afterwards. One at a time, on the main thread.
class InterruptWatch {
public:
  explicit InterruptWatch(SecondSignal second = SecondSignal::Ends);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] static int signal(); // 0, or the signal's number; may be asked from any thread
  // What the command that it interrupted ends with: 128 + the signal's number, as a shell counts.
  [[nodiscard]] static ExitCode exit_code();
  static void clear(); // forget it (the chat's next line)
};

} // namespace ductl::commands
