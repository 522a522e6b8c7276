// Links and addresses of this machine, set over rtnetlink. A duck needs no route but the one that its address brings: all that
// it talks to is its neighbour.
#pragma once

#include "inventory/error.hpp"
#include "inventory/inventory.hpp"

#include <string>

namespace ductl::agent::init {

[[nodiscard]] Expected<void> raise_link(const std::string& interface);
// Adds it, or renews it. `netmask` is contiguous.
[[nodiscard]] Expected<void> set_address(const std::string& interface, inventory::Ipv4 address, inventory::Ipv4 netmask);

} // namespace ductl::agent::init
