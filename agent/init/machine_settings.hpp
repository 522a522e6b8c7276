// How a duck's kernel is set for its one purpose, as far as that can be done after it has started: interrupts and kernel work on
// the first core, huge pages for weights, full clock, a restart after a panic.
#pragma once

#include "agent/machine/machine_files.hpp"

#include <string>
#include <vector>

namespace ductl::agent::init {

struct MachineSetting {
  std::string path, value;
  bool operator==(const MachineSetting&) const = default;
};
// Those that this machine has a file for, in order. `cores` decides whether the first one is set apart.
[[nodiscard]] std::vector<MachineSetting> machine_settings(const MachineFiles& files, int cores);

// How many could be made. The others are not there, or not to be had on this kernel.
int make_settings(const MachineFiles& files, const std::vector<MachineSetting>& settings);

} // namespace ductl::agent::init
