// Time as a value. Logic takes an Instant; only mains and I/O loops read the clock.
#pragma once

#include <chrono>

namespace ductl {

using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
using Duration = std::chrono::nanoseconds;

} // namespace ductl
