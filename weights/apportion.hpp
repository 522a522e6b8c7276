// How many slices of each expert each duck gets: placement without saying which ones. Pure.
//
// Bounds: floor or ceil of the duck's share of every expert. Among the counts that keep them, the ones that move least from
// what the ducks hold now; among those, the ones that keep the totals even. Guarantees: docs/slices.md, "Placement".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ductl::weights {

struct ApportionDuck {
  std::uint64_t name_hash = 0; // breaks ties, so that the remainder rotates and no duck is first everywhere
  double target = 0;           // its share of all slices
  std::uint64_t slices_max = 0;
};

struct ApportionExpert {
  std::uint16_t layer = 0, expert = 0;
  int slices = 0;
};

struct Apportionment {
  std::vector<int> count; // [expert * ducks + duck]
  bool tight = false;     // memory was too short for floor and ceil; only slices_max was kept
};

// Shares by weight, but never more than slices_max: what does not fit goes to the others. Empty when it fits nowhere.
[[nodiscard]] std::vector<double> share_targets(std::span<const double> weights, std::span<const std::uint64_t> slices_max,
                                                std::uint64_t slices);

// `held`: what each duck holds now, [expert * ducks + duck]; empty at first. The targets add up to all slices.
[[nodiscard]] Apportionment apportion(std::span<const ApportionExpert> experts, std::span<const ApportionDuck> ducks,
                                      std::span<const int> held);

} // namespace ductl::weights
