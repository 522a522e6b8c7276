// "prefill 128/1024" on stderr, for commands that may take a while: nothing in the first second, then at most once a second.
#pragma once

#include "inventory/clock.hpp"

#include <string>

namespace ductl::engine {

class ProgressLine {
public:
  explicit ProgressLine(Instant now) : started_(now), shown_(now) {}
  // What to print now: empty while it is too early. Pure but for its own state.
  [[nodiscard]] std::string line(const std::string& what, long done, long total, Instant now);
  void show(const std::string& what, long done, long total); // line() at the clock's time, to stderr

private:
  Instant started_, shown_;
};

} // namespace ductl::engine
