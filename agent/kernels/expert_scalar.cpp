// The kernels' oracle: plain loops in the order of docs/slices.md. Correct first; runs where AVX2 is missing.
#include "agent/kernels/expert.hpp"
#include "agent/kernels/guard.hpp"
#include "agent/kernels/silu_constants.hpp"
#include "weights/slice.hpp"
#include "weights/tile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ductl::agent {

namespace {

constexpr int kPanelRows = 2 * weights::kSliceChannels;

struct Views {
  weights::SliceLayout layout;
  const float *gate_scale, *up_scale, *down_scale; // slices are 64-byte aligned and so are their parts
  const std::byte* slice;
  float guard_factor;
  float unit; // e4m3 weights enter the sums 2^8 times too small, their scales 2^8 times too large
};

Views views_of(const ExpertJob& job, int number) {
  const weights::SliceLayout layout = weights::slice_layout(job.hidden, job.format);
  const std::byte* slice = job.slices[number];
  return {layout,
          reinterpret_cast<const float*>(slice + layout.gate_scale),
          reinterpret_cast<const float*>(slice + layout.up_scale),
          reinterpret_cast<const float*>(slice + layout.down_scale),
          slice,
          job.guard_factor[number],
          job.format == weights::TileFormat::EightBit ? 256.0f : 1.0f};
}

float silu(float gate) {
  using namespace silu;
  float z = -gate;
  z = z > kLowest ? z : kLowest; // as maxps and minps choose
  z = z < kHighest ? z : kHighest;
  const float shifted = std::fma(z, kLog2E, kRounder);
  const float n = shifted - kRounder;
  float r = std::fma(n, kMinusLn2High, z);
  r = std::fma(n, kMinusLn2Low, r);
  float p = kP0;
  for (const float c : {kP1, kP2, kP3, kP4, kP5}) p = std::fma(p, r, c);
  const float e = std::fma(p, r * r, r) + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u); // 2^n
  return gate / (1.0f + e * power);
}

// gate and up of every token: total[token][tile row].
void panel_products(const ExpertJob& job, const Views& views, float* total) {
  std::fill(total, total + job.tokens * kPanelRows, 0.0f);
  for (int block = 0; block < views.layout.scale_blocks; ++block) {
    const int begin = block * weights::kScaleBlock, end = std::min(begin + weights::kScaleBlock, job.hidden);
    for (int row = 0; row < kPanelRows; ++row) {
      float w[weights::kScaleBlock];
      for (int c = begin; c < end; ++c)
        w[c - begin] = weights::tile_value(views.slice + views.layout.panel_tile(c / 16), job.format, row, c % 16) / views.unit;
      const float scale = (row < weights::kSliceChannels ? views.gate_scale[block] : views.up_scale[block]) * views.unit;
      for (int t = 0; t < job.tokens; ++t) {
        float acc = 0;
        for (int c = begin; c < end; ++c) acc = std::fma(w[c - begin], job.x[t][c], acc);
        total[t * kPanelRows + row] = std::fma(scale, acc, total[t * kPanelRows + row]);
      }
    }
  }
}

// |h| summed as a tree: lanes 8, 4, 2 and 1 apart.
float l1_norm(const float* h) {
  float lane[weights::kSliceChannels];
  for (int c = 0; c < weights::kSliceChannels; ++c) lane[c] = std::fabs(h[c]);
  for (int width = weights::kSliceChannels / 2; width > 0; width /= 2)
    for (int c = 0; c < width; ++c) lane[c] = lane[c] + lane[c + width];
  return lane[0];
}

void activate(const ExpertJob& job, const Views& views, const float* total, float* h) {
  for (int t = 0; t < job.tokens; ++t) {
    const float *gate = total + t * kPanelRows, *up = gate + weights::kSliceChannels;
    float* out = h + t * weights::kSliceChannels;
    for (int c = 0; c < weights::kSliceChannels; ++c) out[c] = (silu(gate[c]) * up[c]) * job.weight[t];
    add_to_guard(job.guard[t], views.guard_factor * l1_norm(out));
  }
}

// As cvtps2dq: nearest even; what does not fit (NaN too) is 0x80000000.
std::int32_t to_fixed(float value) {
  if (!(value >= -0x1p31f && value < 0x1p31f)) return INT32_MIN;
  return static_cast<std::int32_t>(std::nearbyint(value));
}

void down_products(const ExpertJob& job, const Views& views, const float* h) {
  for (int row = 0; row < job.hidden; ++row) {
    const std::byte* tile = views.slice + views.layout.down_tile(row / 32);
    const int block = row / weights::kScaleBlock;
    const float scale = views.down_scale[block] * views.unit * job.fixed_scale[block];
    float w[weights::kSliceChannels];
    for (int c = 0; c < weights::kSliceChannels; ++c) w[c] = weights::tile_value(tile, job.format, row % 32, c) / views.unit;
    for (int t = 0; t < job.tokens; ++t) {
      float acc = 0;
      for (int c = 0; c < weights::kSliceChannels; ++c) acc = std::fma(w[c], h[t * weights::kSliceChannels + c], acc);
      const auto sum = static_cast<std::uint32_t>(job.y[t][row]) + static_cast<std::uint32_t>(to_fixed(acc * scale));
      job.y[t][row] = static_cast<std::int32_t>(sum); // wraps
    }
  }
}

void forward(const ExpertJob& job) {
  for (int number = 0; number < job.count; ++number) {
    const Views views = views_of(job, number);
    float *total = job.scratch, *h = job.scratch + job.tokens * kPanelRows;
    panel_products(job, views, total);
    activate(job, views, total, h);
    down_products(job, views, h);
  }
}

void down_only(const ExpertJob& job) {
  for (int number = 0; number < job.count; ++number)
    down_products(job, views_of(job, number), job.scratch + job.tokens * kPanelRows);
}

} // namespace

const ExpertKernels& scalar_kernels() {
  static constexpr ExpertKernels kTable{"scalar", forward, down_only};
  return kTable;
}

} // namespace ductl::agent
