// Ducks that are slower than the others: their own figures against the flock's median. Pure.
#pragma once

#include "ductl/reconcile/observed.hpp"

#include <map>

namespace ductl::reconcile {

// A round is as slow as its slowest duck. Of two or less there is no saying which of them is slow.
inline constexpr std::size_t kStragglerDucksMin = 3;
inline constexpr double kStragglerShare = 0.85; // of the median

// By name, for a person: "reads memory at 6.1 GB/s, the flock's median is 9.8".
[[nodiscard]] std::map<std::string, std::string> stragglers(const Observed& observed);

} // namespace ductl::reconcile
