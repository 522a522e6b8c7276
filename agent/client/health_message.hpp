// What a duck says of its own health: the body of GET /v1/health, both ends of it (docs/control.md). Pure.
//
// A check that has no sensor is Unknown and says why in `advice`; it is never Ok. What depends on other ducks (slower than the
// median) is not judged here: the agent gives the figure, ductl compares.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::agent {

enum class HealthState { Ok, Warn, Fail, Unknown };
[[nodiscard]] const char* to_string(HealthState state); // "ok", "warn", "fail", "unknown"

// Names of the checks. A reader takes names that it does not know as they are.
namespace check {
inline constexpr const char *kMemory = "memory",               // figure: bytes found
    *kMemoryTest = "memory-test",                              // figure: bytes tested
        *kLink = "link",                                       // figure: Mb/s
            *kWakeOnLan = "wake-on-lan",                       //
                *kCpu = "cpu",                                 // figure: cores
                    *kCpuClock = "cpu-clock",                  // figure: MHz
                        *kThrottling = "throttling",           // figure: events since the start
                            *kTemperature = "temperature",     // figure: degrees Celsius
                                *kClock = "clock",             // figure: ms, positive where the duck is ahead of the host
                                    *kStream = "stream",       // figure: bytes a second, reading memory
                                        *kKernel = "kernel",   // figure: bytes of weights a second
                                            *kImage = "image", //
                                                *kLastBoot = "last-boot"; // how the boot before this one ended, where the machine
                                                                          // kept that
} // namespace check

struct HealthCheck {
  std::string name;
  HealthState state = HealthState::Unknown;
  std::string value{}, expected{}; // for a person; "" = none, not said
  std::string advice{};            // what a person should do, or why it is unknown; "" when all is well
  std::uint64_t since_s = 0;       // how long it has been in this state
  std::optional<std::int64_t> figure{};
  bool operator==(const HealthCheck&) const = default;
};

struct Health {
  std::vector<HealthCheck> checks;
  std::string image; // id of the image that runs; "" where the agent is no duck's init
  std::string agent; // version
  std::uint64_t uptime_s = 0;
  bool operator==(const Health&) const = default;
};

// The worst of all checks: Fail, then Warn, then Unknown.
[[nodiscard]] HealthState worst(const Health& health);
[[nodiscard]] const HealthCheck* find(const Health& health, std::string_view name); // null where there is none

[[nodiscard]] std::string health_text(const Health& health);
[[nodiscard]] Expected<Health> parse_health(std::string_view text); // at most 256 checks

} // namespace ductl::agent
