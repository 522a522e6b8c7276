// The tile: 32 rows x 16 columns of fp9 codes in 576 bytes (nine cache lines), 64-byte aligned. Layout: docs/slices.md.
//
//   plane: byte 32*h + r      (h = 0, 1; r = 0..31): bit 7-j = mantissa bit 0 of row r, column 8h+j   (j = 0..7)
//   body:  byte 64 + 32*i + r (i = 0..15; r = 0..31): bit 7 = sign, bits 6..2 = exponent, bits 1..0 = mantissa bits 2..1
#pragma once

#include "weights/fp9.hpp"

#include <cstddef>
#include <cstdint>

namespace ductl::weights {

inline constexpr int kTileRows = 32, kTileColumns = 16;
inline constexpr std::size_t kTilePlaneBytes = 64;

struct TileCodes {
  alignas(64) Fp9 code[kTileRows][kTileColumns];
};

// Writes all 576 bytes.
void store_tile(const TileCodes& codes, std::byte* tile);

[[nodiscard]] constexpr Fp9 tile_code(const std::byte* tile, int row, int column) {
  const auto body = std::to_integer<unsigned>(tile[kTilePlaneBytes + static_cast<std::size_t>(32 * column + row)]);
  const auto plane = std::to_integer<unsigned>(tile[32 * (column / 8) + row]);
  return static_cast<Fp9>(body << 1 | ((plane >> (7 - column % 8)) & 1u));
}

} // namespace ductl::weights
