#include "agent/init/hello_schedule.hpp"

#include <algorithm>

namespace ductl::agent::init {

bool HelloSchedule::is_due(Instant now, bool adopted) {
  constexpr Duration kLongest = std::chrono::seconds(10);
  if (adopted || now < next_) return false;
  next_ = now + interval_;
  interval_ = std::min(2 * interval_, kLongest);
  return true;
}

} // namespace ductl::agent::init
