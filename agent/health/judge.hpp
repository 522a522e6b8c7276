// Whether a machine is well: pure functions from what was read and what the inventory expects to checks with a reason.
// The bounds stand in judge.cpp, one place each.
#pragma once

#include "agent/client/adopt_message.hpp"
#include "agent/client/health_message.hpp"
#include "agent/health/readings.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ductl::agent::health {

// What was found once, at the start, and measured of the work since. Absent = not (yet) known.
struct Measured {
  std::optional<std::uint64_t> memory_tested_bytes, memory_bad_words; // both or none
  std::string memory_bad_place;                                       // the first one
  std::optional<double> clock_hz, stream_bytes_s, kernel_bytes_s;
  std::optional<std::string> last_panic; // of the boot before this one; "" = a record is kept, and it is empty
};

struct Facts {
  Readings readings;
  Expectations expected;
  Measured measured;
  bool netbooted = false;                     // the machine is the agent's; else it is a guest on it (a local flock)
  std::string image;                          // that runs
  std::int64_t throttle_count_first = 0;      // as it was when the agent started
  std::optional<std::int64_t> clock_skew_ms;  // the duck's clock less the host's
  std::optional<std::int64_t> clock_found_ms; // the same when it was adopted, before it was set
};

// One check each, in the order in which a person should look at them.
[[nodiscard]] std::vector<HealthCheck> judge(const Facts& facts);

} // namespace ductl::agent::health
