// Which of the two stored forms (tile_format.hpp) a checkpoint's slices have. Both hold fp8 weights exactly and give the same
// bits; e4m3 is a ninth smaller, and holds nothing else.
#pragma once

#include "weights/checkpoint.hpp"
#include "weights/tile_format.hpp"

#include <optional>
#include <string_view>

namespace ductl::weights {

[[nodiscard]] std::string_view format_name(TileFormat format); // "fp9", "e4m3"
[[nodiscard]] std::optional<TileFormat> format_named(std::string_view name);

// `wanted` is the inventory's model.format: "fp9", "e4m3", or "auto" = e4m3 where all FFN weights are fp8, else fp9. Looks at
// types only. kModelUnsupported, naming a tensor, when e4m3 is wanted and some weight is not fp8.
[[nodiscard]] Expected<TileFormat> choose_format(const Checkpoint& checkpoint, std::string_view wanted);

} // namespace ductl::weights
