// Which expert kernels this machine runs.
#pragma once

#include "agent/kernels/expert.hpp"
#include "inventory/error.hpp"

#include <span>

namespace ductl::agent {

[[nodiscard]] std::span<const ExpertKernels* const> all_kernels(); // that this CPU can run, the best first
// $DUCTL_KERNELS names one of them (kUsage for another name, and for what this CPU lacks); else the best. Never null.
[[nodiscard]] Expected<const ExpertKernels*> select_kernels();

} // namespace ductl::agent
