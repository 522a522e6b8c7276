// The power driver of ducks that are machines of their own: a magic packet out of the port that they hang on.
//
// Sending says nothing about the duck: state() is never On or Off. on() sends one packet in both forms; when and how often is
// wake_schedule.hpp's. A port that is down, or without a link (its switch or cable), is an error: the kernel takes packets for
// such a port and drops them. off() is refused: a duck is switched off by its agent (POST /v1/power-off).
#pragma once

#include "ductl/power/power_driver.hpp"

#include <memory>
#include <vector>

namespace ductl::power {

// The raw form needs CAP_NET_RAW; without it on() fails and says so.
[[nodiscard]] std::unique_ptr<PowerDriver> make_wake_on_lan_driver(std::vector<inventory::Port> ports);

} // namespace ductl::power
