// What the boot loader wrote onto the kernel's command line for a duck's init. Pure.
#pragma once

#include "inventory/inventory.hpp"

#include <optional>
#include <string_view>

namespace ductl::agent::init {

struct KernelArguments {
  std::optional<inventory::Mac> boot_mac; // BOOTIF=01-52-54-00-21-01-01: the card that it booted from
  inventory::Ipv4 address = 0, host = 0;  // of ip=ADDRESS:HOST:...; 0 = not said (a UKI has one line for all ducks)
};

// Words that are not understood are skipped: the line is the kernel's, and most of it is for others.
[[nodiscard]] KernelArguments parse_kernel_arguments(std::string_view line);

} // namespace ductl::agent::init
