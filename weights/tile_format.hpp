// How a tile's weights are coded (weights/tile.hpp says which bit stands where). By itself, as kernel files may include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ductl::weights {

enum class TileFormat : std::uint8_t { NineBit /* fp9 */, EightBit /* e4m3, its bits turned */ };
[[nodiscard]] constexpr std::size_t tile_bytes(TileFormat format) { return format == TileFormat::NineBit ? 576 : 512; }

} // namespace ductl::weights
