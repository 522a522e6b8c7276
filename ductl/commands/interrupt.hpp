// Ctrl-C and SIGTERM as a question that loops ask: once = finish the current step and stop, twice = at once.
#pragma once

namespace ductl::commands {

// While one lives, the first SIGINT or SIGTERM is only remembered; a second ends the process with 130 or 143.
// The handlers of before come back afterwards. One at a time, on the main thread.
class InterruptWatch {
public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] static int signal(); // 0, SIGINT or SIGTERM; may be asked from any thread
  static void clear();               // forget it (the chat's next line)
};

} // namespace ductl::commands
