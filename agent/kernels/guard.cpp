#include "agent/kernels/guard.hpp"

#include "agent/kernels/expert.hpp"
#include "weights/fixed_point.hpp"
#include "weights/slice.hpp"
#include "weights/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ductl::agent {

namespace {

// Largest magnitude code of a down tile; codes of both formats are in the order of their values. Lanes of 16 bits, so that the
// loops vectorise.
std::int16_t largest_fp9(const std::byte* tile) {
  std::int16_t largest[weights::kTileRows] = {};
  for (int column = 0; column < weights::kTileColumns; ++column) {
    const std::byte* plane = tile + 32 * (column / 8);
    const std::byte* body = tile + weights::kTilePlaneBytes + 32 * column;
    const int shift = 7 - column % 8;
    for (int r = 0; r < weights::kTileRows; ++r) {
      const auto high = static_cast<std::int16_t>((std::to_integer<int>(body[r]) & 0x7F) << 1);
      const auto low = static_cast<std::int16_t>((std::to_integer<int>(plane[r]) >> shift) & 1);
      largest[r] = std::max(largest[r], static_cast<std::int16_t>(high | low));
    }
  }
  return *std::max_element(largest, largest + weights::kTileRows);
}

std::int16_t largest_e4m3(const std::byte* tile) {
  std::int16_t largest[weights::kTileRows] = {};
  for (int column = 0; column < weights::kTileColumns; ++column)
    for (int r = 0; r < weights::kTileRows; ++r) {
      const int byte = std::to_integer<int>(tile[32 * column + r]);
      largest[r] = std::max(largest[r], static_cast<std::int16_t>((byte & 0x3F) << 1 | ((byte >> 6) & 1)));
    }
  return *std::max_element(largest, largest + weights::kTileRows);
}

float largest_weight(const std::byte* tile, weights::TileFormat format) {
  return format == weights::TileFormat::NineBit ? weights::fp9_value(static_cast<weights::Fp9>(largest_fp9(tile)))
                                                : weights::e4m3_value(static_cast<std::uint8_t>(largest_e4m3(tile)));
}

} // namespace

void add_to_guard(std::uint64_t& guard, float bound) {
  if (!(bound < 0x1p62f)) { // NaN too
    guard = weights::kGuardSaturated;
    return;
  }
  auto whole = static_cast<std::uint64_t>(bound);
  if (static_cast<float>(whole) < bound) ++whole;
  guard = weights::add_guards(guard, whole);
}

float slice_guard_factor(const std::byte* slice, int hidden, weights::TileFormat format, const float* fixed_scale) {
  const weights::SliceLayout layout = weights::slice_layout(hidden, format);
  double factor = 0;
  for (int block = 0; block < layout.scale_blocks; ++block) {
    const int tile_end = std::min((block + 1) * 4, hidden / 32);
    float weight = 0;
    for (int tile = block * 4; tile < tile_end; ++tile)
      weight = std::max(weight, largest_weight(slice + layout.down_tile(tile), format));
    float down_scale;
    std::memcpy(&down_scale, slice + layout.down_scale + sizeof(float) * static_cast<std::size_t>(block), sizeof down_scale);
    const double largest = double{weight} * std::fabs(double{down_scale});
    factor = std::max(factor, largest * double{fixed_scale[block]});
  }
  // 2^-19 covers every rounding between here and the sum (fewer than 32 of 2^-24 each); then up to the next float.
  factor *= 1 + 0x1p-19;
  const auto narrow = static_cast<float>(factor);
  return double{narrow} < factor ? std::nextafter(narrow, std::numeric_limits<float>::infinity()) : narrow;
}

} // namespace ductl::agent
