#include "weights/tile.hpp"

#include <cstring>

namespace ductl::weights {

namespace {

// Bytes b[0..7], each 0 or 1 -> one byte with b[0] in bit 7. The products 2^(8j + 9k) are all distinct: nothing carries.
std::byte gather_bits(const std::uint8_t* bits) {
  std::uint64_t word;
  std::memcpy(&word, bits, sizeof word); // little-endian, as every machine of a flock
  return static_cast<std::byte>((word * 0x8040201008040201ull) >> 56);
}

} // namespace

void store_tile(const TileCodes& codes, std::byte* tile) {
  std::byte* body = tile + kTilePlaneBytes;
  for (int r = 0; r < kTileRows; ++r) {
    alignas(16) std::uint8_t high[kTileColumns], low[kTileColumns];
    for (int i = 0; i < kTileColumns; ++i) {
      high[i] = static_cast<std::uint8_t>(codes.code[r][i] >> 1);
      low[i] = static_cast<std::uint8_t>(codes.code[r][i] & 1);
    }
    tile[r] = gather_bits(low);
    tile[32 + r] = gather_bits(low + 8);
    for (int i = 0; i < kTileColumns; ++i) body[32 * i + r] = static_cast<std::byte>(high[i]);
  }
}

void store_tile(const TileE4m3& codes, std::byte* tile) {
  for (int r = 0; r < kTileRows; ++r)
    for (int i = 0; i < kTileColumns; ++i) tile[32 * i + r] = std::byte{turned_e4m3(codes.code[r][i])};
}

} // namespace ductl::weights
