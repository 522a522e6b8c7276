// Addresses of a boot network, as everybody here names them.
#pragma once

#include "inventory/inventory.hpp"

namespace ductl::netboot {

using inventory::Ipv4;
using inventory::Mac;

// "255.255.255.0" as a number, for 24.
[[nodiscard]] constexpr Ipv4 netmask(int prefix_length) { return prefix_length == 0 ? 0 : ~Ipv4{0} << (32 - prefix_length); }

} // namespace ductl::netboot
