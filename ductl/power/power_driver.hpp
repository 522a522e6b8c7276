// The power seam: how a duck is switched on and off, and what can be told about it.
//
// Idempotent, and not to be believed: success means that the switch was pressed. Whether a duck runs is decided by the next
// observation (its agent's hello). Calls may block for a bounded time. Different ducks may be driven from different threads.
#pragma once

#include "inventory/inventory.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ductl::power {

enum class Power { Unknown, Off, On };

struct PowerState {
  Power power = Power::Unknown;
  bool died = false;                             // it was switched on and has ended by itself since
  bool outdated = false;                         // of a local process: its program was built anew since
  int pid = 0;                                   // of a local process
  std::uint64_t private_bytes = 0;               // of a local process
  inventory::Ipv4 address = 0;                   // where it was switched on; 0 = where the inventory says
  std::uint16_t control_port = 0, data_port = 0; // where the driver knows them better than the inventory; 0 otherwise
  std::optional<std::chrono::system_clock::time_point> since = {}; // switched on
};

class PowerDriver {
public:
  virtual ~PowerDriver() = default;
  // What `on` would fail with and can be known before: asked for all ducks before anything that serves is stopped. A port that an
  // agent of this flock has now is free by then.
  [[nodiscard]] virtual Expected<void> check(const inventory::Duck& duck) = 0;
  [[nodiscard]] virtual Expected<void> on(const inventory::Duck& duck) = 0;
  [[nodiscard]] virtual Expected<void> off(const inventory::Duck& duck) = 0;
  [[nodiscard]] virtual PowerState state(const inventory::Duck& duck) = 0;
};

} // namespace ductl::power
