// The tile: 32 rows x 16 columns of weights, 64-byte aligned, in one of two forms. Layout: docs/slices.md.
//
//   fp9, 576 bytes (nine cache lines)
//   plane: byte 32*h + r      (h = 0, 1; r = 0..31): bit 7-j = mantissa bit 0 of row r, column 8h+j   (j = 0..7)
//   body:  byte 64 + 32*i + r (i = 0..15; r = 0..31): bit 7 = sign, bits 6..2 = exponent, bits 1..0 = mantissa bits 2..1
//
//   e4m3, 512 bytes (eight lines): byte 32*i + r: bit 7 = sign, bit 6 = mantissa bit 0, bits 5..2 = exponent, bits 1..0 =
//   mantissa bits 2..1 of row r, column i. Turned so, a byte splits into the two of a half with two operations.
#pragma once

#include "weights/e4m3.hpp"
#include "weights/fp9.hpp"
#include "weights/tile_format.hpp"

#include <cstddef>
#include <cstdint>

namespace ductl::weights {

inline constexpr int kTileRows = 32, kTileColumns = 16;
inline constexpr std::size_t kTilePlaneBytes = 64;

struct TileCodes {
  alignas(64) Fp9 code[kTileRows][kTileColumns];
};

struct TileE4m3 {
  alignas(64) std::uint8_t code[kTileRows][kTileColumns]; // as checkpoints have them
};

// Writes all bytes of a tile.
void store_tile(const TileCodes& codes, std::byte* tile);
void store_tile(const TileE4m3& codes, std::byte* tile);

[[nodiscard]] constexpr Fp9 tile_code(const std::byte* tile, int row, int column) {
  const auto body = std::to_integer<unsigned>(tile[kTilePlaneBytes + static_cast<std::size_t>(32 * column + row)]);
  const auto plane = std::to_integer<unsigned>(tile[32 * (column / 8) + row]);
  return static_cast<Fp9>(body << 1 | ((plane >> (7 - column % 8)) & 1u));
}

[[nodiscard]] constexpr std::uint8_t turned_e4m3(std::uint8_t code) {
  return static_cast<std::uint8_t>((code & 0x80) | (code & 1) << 6 | ((code >> 1) & 0x3F));
}
[[nodiscard]] constexpr std::uint8_t tile_e4m3(const std::byte* tile, int row, int column) {
  const auto byte = std::to_integer<unsigned>(tile[static_cast<std::size_t>(32 * column + row)]);
  return static_cast<std::uint8_t>((byte & 0x80) | (byte & 0x3F) << 1 | ((byte >> 6) & 1));
}

[[nodiscard]] constexpr float tile_value(const std::byte* tile, TileFormat format, int row, int column) {
  return format == TileFormat::NineBit ? fp9_value(tile_code(tile, row, column)) : e4m3_value(tile_e4m3(tile, row, column));
}

} // namespace ductl::weights
