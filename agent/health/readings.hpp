// What a machine says of its own state, at one moment: read here, judged in judge.hpp. What there is no sensor for is absent.
#pragma once

#include "agent/machine/machine_files.hpp"
#include "agent/machine/network_card.hpp"
#include "agent/machine/wake_on_lan.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ductl::agent::health {

struct Readings {
  std::uint64_t memory_bytes = 0; // that Linux has; 0 = not told
  int cores = 0;                  // online
  std::string cpu_name;
  bool avx2 = false;                          // AVX2, FMA and F16C
  std::optional<std::int64_t> clock_max_khz;  // what the CPU can do at most
  std::optional<std::int64_t> throttle_count; // of all cores, since the machine's start
  std::optional<double> celsius;              // the hottest sensor
  std::string celsius_sensor;                 // its name
  std::string interface;                      // "" = none is watched (a local flock)
  std::optional<LinkState> link;              // of `interface`
  std::optional<WakeOnLan> wake_on_lan;       // of `interface`
};

// Costs a few milliseconds. `interface` may be "".
[[nodiscard]] Readings read_machine(const MachineFiles& files, const std::string& interface);

} // namespace ductl::agent::health
