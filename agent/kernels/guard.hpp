// The overflow guard of a token, as kernels add to it. Only plain arithmetic: the wide kernel file includes this.
#pragma once

#include <cstdint>

namespace ductl::agent {

// guard + ceil(bound), saturating at 2^62 (kGuardSaturated of weights/fixed_point.hpp); NaN counts as beyond everything.
// The same value in whatever order the bounds arrive.
void add_to_guard(std::uint64_t& guard, float bound);

} // namespace ductl::agent
