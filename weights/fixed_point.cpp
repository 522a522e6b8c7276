#include "weights/fixed_point.hpp"

#include "weights/fp9.hpp"
#include "weights/tile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ductl::weights {

namespace {

constexpr int kExponentMax = 100;
constexpr double kSiluGain = 0.6;       // rms of silu(g) over rms of g: 0.5 for small g, 0.71 for large
constexpr double kRoundingError = 4e-6; // aimed at, of the whole sum, relative to its expected rms
constexpr double kRangeMinimum = 1024;  // of the expected rms, whatever rounding would allow

// Adds the squares of the codes of a tile to one lane a row, columns in order. Finite codes only; vectorises.
void add_fp9_squares(const std::byte* tile, float* lane) {
  for (int column = 0; column < kTileColumns; ++column) {
    const std::byte* plane = tile + 32 * (column / 8);
    const std::byte* body = tile + kTilePlaneBytes + 32 * column;
    const int shift = 7 - column % 8;
    for (int r = 0; r < kTileRows; ++r) {
      const std::uint32_t low = (std::to_integer<std::uint32_t>(plane[r]) >> shift) & 1u;
      const std::uint32_t magnitude = (std::to_integer<std::uint32_t>(body[r]) & 0x7Fu) << 1 | low;
      const float value = std::bit_cast<float>(magnitude << 20) * 0x1p112f; // fp9_value() of a finite magnitude
      lane[r] = lane[r] + value * value;
    }
  }
}

void add_e4m3_squares(const std::byte* tile, float* lane) {
  for (int column = 0; column < kTileColumns; ++column) {
    const std::byte* body = tile + 32 * column;
    for (int r = 0; r < kTileRows; ++r) {
      const auto byte = std::to_integer<std::uint32_t>(body[r]);
      const std::uint32_t magnitude = (byte & 0x3Fu) << 1 | (byte >> 6 & 1u);
      const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f; // e4m3_value() of a finite magnitude
      lane[r] = lane[r] + value * value;
    }
  }
}

void add_squares(const std::byte* tile, TileFormat format, float* lane) {
  format == TileFormat::NineBit ? add_fp9_squares(tile, lane) : add_e4m3_squares(tile, lane);
}

double scaled_sum(const float* lane, int count, const std::byte* scale_place) {
  float scale;
  std::memcpy(&scale, scale_place, sizeof scale);
  double sum = 0;
  for (int r = 0; r < count; ++r) sum += double{lane[r]};
  return sum * double{scale} * double{scale};
}

} // namespace

float fixed_scale(int exponent, int rung) { return std::ldexp(1.0f, exponent - kRungBits * rung); }

float fixed_step(int exponent, int rung) { return std::ldexp(1.0f, kRungBits * rung - exponent); }

void slice_norms(const std::byte* slice, int hidden, SliceNorms& out, TileFormat format) {
  const SliceLayout layout = slice_layout(hidden, format);
  out.gate = out.up = 0;
  out.down.assign(static_cast<std::size_t>(layout.scale_blocks), 0.0);
  for (int block = 0; block < layout.scale_blocks; ++block) {
    const std::size_t place = sizeof(float) * static_cast<std::size_t>(block);
    float lane[kTileRows] = {};
    for (int tile = 8 * block; tile < std::min(8 * (block + 1), hidden / 16); ++tile)
      add_squares(slice + layout.panel_tile(tile), format, lane);
    out.gate += scaled_sum(lane, kSliceChannels, slice + layout.gate_scale + place);
    out.up += scaled_sum(lane + kSliceChannels, kSliceChannels, slice + layout.up_scale + place);
    std::fill(std::begin(lane), std::end(lane), 0.0f);
    for (int tile = 4 * block; tile < std::min(4 * (block + 1), hidden / 32); ++tile)
      add_squares(slice + layout.down_tile(tile), format, lane);
    out.down[static_cast<std::size_t>(block)] = scaled_sum(lane, kTileRows, slice + layout.down_scale + place);
  }
}

void ExpertNorms::add(const SliceNorms& slice) {
  channels += kSliceChannels;
  gate += slice.gate;
  up += slice.up;
  down.resize(slice.down.size(), 0.0);
  for (std::size_t block = 0; block < down.size(); ++block) down[block] += slice.down[block];
}

std::vector<double> expected_rms(int hidden, std::span<const ExpertNorms> experts, int shared,
                                 const LayerActivation& activation) {
  const SliceLayout layout = slice_layout(hidden);
  std::vector<double> rms(static_cast<std::size_t>(layout.scale_blocks), 0.0);
  const double input_square = activation.input_rms * activation.input_rms;
  for (int block = 0; block < layout.scale_blocks; ++block) {
    const int rows = std::min(kScaleBlock, hidden - block * kScaleBlock);
    double routed = 0, shared_rms = 0;
    for (std::size_t e = 0; e < experts.size(); ++e) {
      const ExpertNorms& expert = experts[e];
      const double gate_rms = std::sqrt(expert.gate / expert.channels), up_rms = std::sqrt(expert.up / expert.channels);
      const double h_rms = kSiluGain * gate_rms * up_rms * input_square;
      const double y_rms = std::sqrt(expert.down[static_cast<std::size_t>(block)] / rows) * h_rms;
      if (static_cast<int>(e) == shared)
        shared_rms = y_rms;
      else
        routed = std::max(routed, y_rms);
    }
    routed *= activation.routed_weight / std::sqrt(static_cast<double>(activation.experts_per_token));
    rms[static_cast<std::size_t>(block)] = std::sqrt(routed * routed + shared_rms * shared_rms);
  }
  return rms;
}

std::int16_t fixed_exponent(double rms, int slices_per_token) {
  if (!(rms > 0) || !std::isfinite(rms)) return 0; // y is zero, or the guard will say what it is
  const double rounding = std::sqrt(slices_per_token / 12.0) / (kRoundingError * rms);
  const double range = 0x1p31 / (kRangeMinimum * rms);
  int exponent = 0;
  std::frexp(std::min(rounding, range), &exponent); // floor(log2(x)) = exponent - 1, without a logarithm's last bit
  return static_cast<std::int16_t>(std::clamp(exponent - 1, -kExponentMax, kExponentMax));
}

} // namespace ductl::weights
