#include "engine/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace ductl::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) { std::erase(stops_, std::string()); }

StopMatcher::Result StopMatcher::push(std::string_view text) {
  if (stopped_) return {{}, true};
  held_ += text;
  std::size_t begin = std::string::npos, end = std::string::npos; // of the stop string that is complete first
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) begin = at, end = at + stop.size();
  }
  stopped_ = end != std::string::npos;
  const std::size_t shown = stopped_ ? begin : hold_from(held_);
  Result result{held_.substr(0, shown), stopped_};
  held_.erase(0, stopped_ ? std::string::npos : shown);
  return result;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

// Where the longest suffix that begins a stop string starts.
std::size_t StopMatcher::hold_from(std::string_view text) const {
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > held; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) held = n;
    }
  }
  return text.size() - held;
}

} // namespace ductl::engine
