// AVX2 kernels over the 32-row tile. Bits and order: docs/slices.md; the scalar table is the oracle.
//
// A tile column is 32 bytes, one a row: unpacking (plane bit 7, byte) gives 8 halves a register, vcvtph2ps the weights.
// Up to three tokens the weights are used where they are decoded, in registers. From four on a block of 32 rows x 128
// columns is decoded once into scratch (16 KiB, it stays in L1) and three tokens at a time run over it.
// One sequential stream a slice: every line is prefetched once, 24 tiles ahead, on into whatever lies behind the slice.
#include "agent/kernels/expert.hpp"
#include "agent/kernels/guard.hpp"
#include "agent/kernels/silu_constants.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define DUCTL_INLINE static inline __attribute__((always_inline))

namespace ductl::agent {

namespace {

constexpr int kRows = 32, kTileColumns = 16, kBlock = 128, kChannels = 16;
constexpr std::size_t kTile = 576, kPlane = 64;
constexpr std::size_t kPrefetchAhead = 24 * kTile;

struct Views {
  const float *gate_scale, *up_scale, *down_scale;
  const std::byte *panel, *down;
};

// slice_layout() again, because this file may not include other headers; a test compares the two.
Views views_of(const SliceJob& job) {
  const auto blocks = static_cast<std::size_t>((job.hidden + kBlock - 1) / kBlock);
  const auto* scales = reinterpret_cast<const float*>(job.slice);
  const std::byte* panel = job.slice + (3 * blocks * sizeof(float) + 63) / 64 * 64;
  return {scales, scales + blocks, scales + 2 * blocks, panel,
          panel + static_cast<std::size_t>(job.hidden / kTileColumns) * kTile};
}

DUCTL_INLINE void prefetch_tile(const std::byte* tile) {
  const auto* ahead = reinterpret_cast<const char*>(tile) + kPrefetchAhead;
#pragma GCC unroll 9
  for (int line = 0; line < 9; ++line) _mm_prefetch(ahead + 64 * line, _MM_HINT_T1);
}

// Eight halves -> floats.
DUCTL_INLINE __m256 widen(__m128i halves) { return _mm256_cvtph_ps(halves); }

// The weights of one tile column, eight rows a register. `plane` holds the low mantissa bits, the current column's in bit 7.
struct Column {
  __m256 rows[4];
};

DUCTL_INLINE Column decode(const std::byte* body, __m128i plane_low, __m128i plane_high) {
  const __m128i top = _mm_set1_epi8(static_cast<char>(0x80));
  const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(body));
  const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(body + 16));
  const __m128i bit_low = _mm_and_si128(plane_low, top), bit_high = _mm_and_si128(plane_high, top);
  return {{widen(_mm_unpacklo_epi8(bit_low, low)), widen(_mm_unpackhi_epi8(bit_low, low)),
           widen(_mm_unpacklo_epi8(bit_high, high)), widen(_mm_unpackhi_epi8(bit_high, high))}};
}

// acc[token][rows] += tile * x, columns in order.
template <int T> DUCTL_INLINE void tile_fma(const std::byte* tile, const float* const* x, int column, __m256 (&acc)[T][4]) {
  for (int half = 0; half < 2; ++half) {
    __m128i plane_low = _mm_load_si128(reinterpret_cast<const __m128i*>(tile + 32 * half));
    __m128i plane_high = _mm_load_si128(reinterpret_cast<const __m128i*>(tile + 32 * half + 16));
    const std::byte* body = tile + kPlane + 256 * half;
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const Column w = decode(body + 32 * j, plane_low, plane_high);
      plane_low = _mm_add_epi8(plane_low, plane_low);
      plane_high = _mm_add_epi8(plane_high, plane_high);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) {
        const __m256 value = _mm256_broadcast_ss(x[t] + column + 8 * half + j);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) acc[t][v] = _mm256_fmadd_ps(w.rows[v], value, acc[t][v]);
      }
    }
  }
}

// total = fma(scale, acc, total) at the end of a 128-column block; rows 0-15 are gate, 16-31 up.
template <int T> DUCTL_INLINE void end_block(const __m256 (&acc)[T][4], float gate_scale, float up_scale, float* total) {
  const __m256 gate = _mm256_set1_ps(gate_scale), up = _mm256_set1_ps(up_scale);
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      float* place = total + kRows * t + 8 * v;
      _mm256_store_ps(place, _mm256_fmadd_ps(v < 2 ? gate : up, acc[t][v], _mm256_load_ps(place)));
    }
  }
}

// y += round(acc * scale) in int32, 32 rows of each token.
template <int T> DUCTL_INLINE void add_fixed(const __m256 (&acc)[T][4], float scale, std::int32_t* const* y, int row) {
  const __m256 wide = _mm256_set1_ps(scale);
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      auto* place = reinterpret_cast<__m256i*>(y[t] + row + 8 * v);
      const __m256i part = _mm256_cvtps_epi32(_mm256_mul_ps(acc[t][v], wide));
      _mm256_storeu_si256(place, _mm256_add_epi32(_mm256_loadu_si256(place), part));
    }
  }
}

template <int T> DUCTL_INLINE void clear(__m256 (&acc)[T][4]) {
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) acc[t][v] = _mm256_setzero_ps();
  }
}

__m256 silu(__m256 gate) {
  using namespace silu;
  __m256 z = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
  z = _mm256_max_ps(z, _mm256_set1_ps(kLowest));
  z = _mm256_min_ps(z, _mm256_set1_ps(kHighest));
  const __m256 rounder = _mm256_set1_ps(kRounder), one = _mm256_set1_ps(1.0f);
  const __m256 shifted = _mm256_fmadd_ps(z, _mm256_set1_ps(kLog2E), rounder);
  const __m256 n = _mm256_sub_ps(shifted, rounder);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(kMinusLn2High), z);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(kMinusLn2Low), r);
  __m256 p = _mm256_set1_ps(kP0);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kP1));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kP2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kP3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kP4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kP5));
  const __m256 e = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), one);
  const __m256i power = _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), _mm256_set1_epi32(0x3F800000));
  return _mm256_div_ps(gate, _mm256_add_ps(one, _mm256_mul_ps(e, _mm256_castsi256_ps(power))));
}

float l1_norm(__m256 low, __m256 high) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  const __m256 eight = _mm256_add_ps(_mm256_and_ps(low, magnitude), _mm256_and_ps(high, magnitude));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// h = (silu(gate) * up) * weight, and the guard.
void activate(const SliceJob& job, const float* total, float* h) {
  for (int t = 0; t < job.tokens; ++t) {
    const float* sums = total + kRows * t;
    const __m256 weight = _mm256_set1_ps(job.weight[t]);
    const __m256 low = _mm256_mul_ps(_mm256_mul_ps(silu(_mm256_load_ps(sums)), _mm256_load_ps(sums + 16)), weight);
    const __m256 high = _mm256_mul_ps(_mm256_mul_ps(silu(_mm256_load_ps(sums + 8)), _mm256_load_ps(sums + 24)), weight);
    _mm256_store_ps(h + kChannels * t, low);
    _mm256_store_ps(h + kChannels * t + 8, high);
    add_to_guard(job.guard[t], job.guard_factor * l1_norm(low, high));
  }
}

// --- up to three tokens: decoded where they are used

template <int T> void panel_fused(const SliceJob& job, const Views& views, float* total) {
  for (int i = 0; i < kRows * T; ++i) total[i] = 0;
  const std::byte* tile = views.panel;
  for (int column = 0, block = 0; column < job.hidden; ++block) {
    __m256 acc[T][4];
    clear(acc);
    const int end = column + kBlock < job.hidden ? column + kBlock : job.hidden;
    for (; column < end; column += kTileColumns, tile += kTile) {
      prefetch_tile(tile);
      tile_fma<T>(tile, job.x, column, acc);
    }
    end_block<T>(acc, views.gate_scale[block], views.up_scale[block], total);
  }
}

template <int T> void down_fused(const SliceJob& job, const Views& views, const float* h) {
  const float* rows[T];
  for (int t = 0; t < T; ++t) rows[t] = h + kChannels * t;
  const std::byte* tile = views.down;
  for (int row = 0; row < job.hidden; row += kRows, tile += kTile) {
    prefetch_tile(tile);
    __m256 acc[T][4];
    clear(acc);
    tile_fma<T>(tile, rows, 0, acc);
    add_fixed<T>(acc, views.down_scale[row / kBlock] * job.fixed_scale[row / kBlock], job.y, row);
  }
}

template <int T> void forward_fused(const SliceJob& job, const Views& views, float* total, float* h) {
  panel_fused<T>(job, views, total);
  activate(job, total, h);
  down_fused<T>(job, views, h);
}

// --- four tokens and more: decoded once into scratch, [column][32 rows]

void decode_tile(const std::byte* tile, float* out) {
  for (int half = 0; half < 2; ++half) {
    __m128i plane_low = _mm_load_si128(reinterpret_cast<const __m128i*>(tile + 32 * half));
    __m128i plane_high = _mm_load_si128(reinterpret_cast<const __m128i*>(tile + 32 * half + 16));
    const std::byte* body = tile + kPlane + 256 * half;
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j, out += kRows) {
      const Column w = decode(body + 32 * j, plane_low, plane_high);
      plane_low = _mm_add_epi8(plane_low, plane_low);
      plane_high = _mm_add_epi8(plane_high, plane_high);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) _mm256_store_ps(out + 8 * v, w.rows[v]);
    }
  }
}

template <int T>
DUCTL_INLINE void block_fma(const float* w, int columns, const float* const* x, int column, __m256 (&acc)[T][4]) {
  const float* from[T];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) from[t] = x[t] + column;
  for (int c = 0; c < columns; ++c, w += kRows) {
    __m256 value[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) value[t] = _mm256_broadcast_ss(from[t] + c);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256 weight = _mm256_load_ps(w + 8 * v);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) acc[t][v] = _mm256_fmadd_ps(weight, value[t], acc[t][v]);
    }
  }
}

// How many tokens the next step takes: three, but never leaving a single one behind.
int next_tokens(int left) { return left == 4 || left == 2 ? 2 : left >= 3 ? 3 : left; }

template <int T>
void panel_step(const float* w, int columns, const float* const* x, int column, float gate_scale, float up_scale, float* total) {
  __m256 acc[T][4];
  clear(acc);
  block_fma<T>(w, columns, x, column, acc);
  end_block<T>(acc, gate_scale, up_scale, total);
}

void panel_batch(const SliceJob& job, const Views& views, float* w, float* total) {
  for (int i = 0; i < kRows * job.tokens; ++i) total[i] = 0;
  const std::byte* tile = views.panel;
  for (int column = 0, block = 0; column < job.hidden; column += kBlock, ++block) {
    const int columns = column + kBlock < job.hidden ? kBlock : job.hidden - column;
    for (int c = 0; c < columns; c += kTileColumns, tile += kTile) {
      prefetch_tile(tile);
      decode_tile(tile, w + kRows * c);
    }
    const float gate = views.gate_scale[block], up = views.up_scale[block];
    for (int t = 0; t < job.tokens;) {
      const int step = next_tokens(job.tokens - t);
      if (step == 3)
        panel_step<3>(w, columns, job.x + t, column, gate, up, total + kRows * t);
      else
        panel_step<2>(w, columns, job.x + t, column, gate, up, total + kRows * t);
      t += step;
    }
  }
}

template <int T> void down_step(const float* w, const float* h, float scale, std::int32_t* const* y, int row) {
  const float* rows[T];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) rows[t] = h + kChannels * t;
  __m256 acc[T][4];
  clear(acc);
  block_fma<T>(w, kChannels, rows, 0, acc);
  add_fixed<T>(acc, scale, y, row);
}

void down_batch(const SliceJob& job, const Views& views, float* w, const float* h) {
  const std::byte* tile = views.down;
  for (int row = 0; row < job.hidden; row += kRows, tile += kTile) {
    prefetch_tile(tile);
    decode_tile(tile, w);
    const float scale = views.down_scale[row / kBlock] * job.fixed_scale[row / kBlock];
    for (int t = 0; t < job.tokens;) {
      const int step = next_tokens(job.tokens - t);
      if (step == 3)
        down_step<3>(w, h + kChannels * t, scale, job.y + t, row);
      else
        down_step<2>(w, h + kChannels * t, scale, job.y + t, row);
      t += step;
    }
  }
}

void slice_forward(const SliceJob& job) {
  const Views views = views_of(job);
  float *w = job.scratch, *total = w + kRows * kBlock, *h = total + kRows * job.tokens;
  switch (job.tokens) {
  case 1: return forward_fused<1>(job, views, total, h);
  case 2: return forward_fused<2>(job, views, total, h);
  case 3: return forward_fused<3>(job, views, total, h);
  default: break;
  }
  panel_batch(job, views, w, total);
  activate(job, total, h);
  down_batch(job, views, w, h);
}

} // namespace

const ExpertKernels& avx2_kernels() {
  static constexpr ExpertKernels kTable{"avx2", slice_forward};
  return kTable;
}

} // namespace ductl::agent
