// What an agent measures of its machine before it takes weights in: memory against patterns, clock, streaming read. Only where
// the machine is the agent's own.
#pragma once

#include "agent/health/judge.hpp"

#include <functional>

namespace ductl::agent::health {

// Blocks for at most about ten seconds; `pause` is called in between, by any thread.
[[nodiscard]] Measured run_self_test(const MachineFiles& files, const std::function<void()>& pause);

} // namespace ductl::agent::health
