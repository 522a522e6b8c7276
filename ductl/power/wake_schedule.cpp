#include "ductl/power/wake_schedule.hpp"

#include <algorithm>

namespace ductl::power {

void WakeSchedule::want(std::size_t duck, int port, Instant now) {
  if (wanted_.contains(duck)) return;
  const auto [free, fresh] = port_free_.try_emplace(port, now);
  const Instant first = fresh ? now : std::max(now, free->second);
  free->second = first + rules_.duck_gap;
  wanted_[duck] = {.next = first, .left_in_burst = rules_.burst, .repeat = rules_.repeat_first};
}

void WakeSchedule::done(std::size_t duck) { wanted_.erase(duck); }

std::vector<std::size_t> WakeSchedule::due(Instant now) {
  std::vector<std::size_t> ducks;
  for (auto& [duck, wanted] : wanted_) {
    if (wanted.next > now) continue;
    ducks.push_back(duck);
    if (--wanted.left_in_burst > 0) {
      wanted.next = now + rules_.packet_gap;
      continue;
    }
    wanted.left_in_burst = rules_.burst;
    wanted.next = now + wanted.repeat;
    wanted.repeat = std::min<std::chrono::milliseconds>(wanted.repeat * 2, rules_.repeat_max);
  }
  return ducks;
}

std::optional<Instant> WakeSchedule::deadline() const {
  std::optional<Instant> first;
  for (const auto& [duck, wanted] : wanted_)
    if (!first || wanted.next < *first) first = wanted.next;
  return first;
}

} // namespace ductl::power
