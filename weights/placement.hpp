// Which duck holds which slice: a pure function of model, flock and the previous placement.
//
// Each duck holds floor or ceil of its share of every expert; the remainder rotates with a hash of layer and expert so
// that totals differ by at most 1 %. A duck that leaves moves only its slices, one that joins only its share.
#pragma once

#include "weights/slice.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ductl::weights {

struct PlacementDuck {
  std::string name;
  double weight = 1;                // share of the work: measured bandwidth, or 1 for all
  std::uint64_t slices_max = ~0ull; // what its memory holds
};

struct Placement {
  std::uint32_t epoch = 0;
  std::string model_id;
  std::vector<std::string> ducks; // names; owner numbers index this
  // owner[layer][expert][slice] = number of the duck that holds it
  std::vector<std::vector<std::vector<std::uint16_t>>> owner;

  [[nodiscard]] std::vector<SliceId> slices_of(int duck) const; // sorted
  bool operator==(const Placement&) const = default;
};

// Epoch is previous->epoch + 1 when anything changes (1 at first), previous' own when nothing does.
// Fails with kModelDoesNotFit when slices_max does not allow it. previous may be of another model (then ignored).
[[nodiscard]] Expected<Placement> place_slices(const ModelConfig& config, const std::string& model_id,
                                               std::span<const PlacementDuck> ducks, const Placement* previous);

[[nodiscard]] Expected<Placement> load_placement(const std::filesystem::path& file);
[[nodiscard]] Expected<void> save_placement(const Placement& placement, const std::filesystem::path& file);

} // namespace ductl::weights
