// When a duck says that it is up: after 0.25 s, 0.5 s and so on up to every 10 s, until it is adopted. Pure.
#pragma once

#include "inventory/clock.hpp"

namespace ductl::agent::init {

class HelloSchedule {
public:
  explicit HelloSchedule(Instant now) : next_(now) {}
  // True when one is to be said now; the next one is then set.
  [[nodiscard]] bool is_due(Instant now, bool adopted);

private:
  Instant next_;
  Duration interval_ = std::chrono::milliseconds(250);
};

} // namespace ductl::agent::init
