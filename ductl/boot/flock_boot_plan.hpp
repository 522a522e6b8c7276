// What the boot server is to do for a flock, from its inventory. Pure.
#pragma once

#include "netboot/boot_plan.hpp"

namespace ductl::boot {

// `kernel_arguments` are the image's own command line, so that a duck runs alike whichever way it came to its kernel. The
// inventory's checks leave nothing that netboot::check_plan() would refuse but such arguments.
[[nodiscard]] netboot::BootPlan flock_boot_plan(const inventory::Flock& flock, const std::string& kernel_arguments);

} // namespace ductl::boot
