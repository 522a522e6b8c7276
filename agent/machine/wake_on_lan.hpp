// Whether a magic packet will wake this machine. Drivers forget it at every start, so init arms it and reads it back.
#pragma once

#include <optional>
#include <string>

namespace ductl::agent {

struct WakeOnLan {
  bool supported = false, armed = false;
};

// Asks for "wake by magic packet" where the card can, and returns what the card then says. Nothing where the driver does not
// talk about it at all.
std::optional<WakeOnLan> arm_wake_on_lan(const std::string& interface);
[[nodiscard]] std::optional<WakeOnLan> wake_on_lan(const std::string& interface); // as it stands

} // namespace ductl::agent
