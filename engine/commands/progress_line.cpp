#include "engine/commands/progress_line.hpp"

#include <cstdio>
#include <fmt/format.h>

namespace ductl::engine {

std::string ProgressLine::line(const std::string& what, long done, long total, Instant now) {
  if (now - shown_ < std::chrono::seconds(1)) return {};
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  return total > 0 ? fmt::format("{} {}/{} ({:.0f} s)", what, done, total, elapsed) : fmt::format("{} ({:.0f} s)", what, elapsed);
}

void ProgressLine::show(const std::string& what, long done, long total) {
  const std::string text = line(what, done, total, Clock::now());
  if (!text.empty()) fmt::print(stderr, "{}\n", text);
}

} // namespace ductl::engine
