// Ctrl-C and SIGTERM as a question that loops ask: once = finish the current step and stop, twice = at once.
#pragma once

namespace ductl::commands {

enum class SecondSignal {
  Ends,   // the process, at once, with 130 or 143
  Ignored // for loops that always answer the first one, and that must put a terminal back in order
};

// While one lives, the first SIGINT or SIGTERM is only remembered. The handlers of before come back afterwards.
// One at a time, on the main thread.
class InterruptWatch {
public:
  explicit InterruptWatch(SecondSignal second = SecondSignal::Ends);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] static int signal(); // 0, SIGINT or SIGTERM; may be asked from any thread
  static void clear();               // forget it (the chat's next line)
};

} // namespace ductl::commands
