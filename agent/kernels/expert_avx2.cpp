// AVX2 kernels over the 32-row tile. Bits and order: docs/slices.md; the scalar table is the oracle.
//
// A tile column is 32 weights, one a row. A decoder turns it into four registers of floats; there are four decoders, for two
// formats and two widths, and everything else is written once over them. Up to three tokens the weights are used where they are
// decoded, in registers. From four on a block of 32 rows x 128 columns is decoded once into scratch (16 KiB, it stays in L1) and
// three tokens at a time run over it.
//
// The order of work over a call's slices: the panel of one after the other, then their down tiles together, row panel by row
// panel. Every line is prefetched once, 24 tiles ahead in that order, through all ends, on into the slice that comes next.
//
// This file is compiled for instructions that not every machine has, so it includes nothing that other files share code with.
#include "agent/kernels/expert.hpp"
#include "agent/kernels/guard.hpp"
#include "agent/kernels/silu_constants.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define DUCTL_INLINE static inline __attribute__((always_inline))
#define DUCTL_INLINE_MEMBER inline __attribute__((always_inline))

namespace ductl::agent {

namespace {

constexpr int kRows = 32, kTileColumns = 16, kBlock = 128, kChannels = 16;
constexpr int kTilesAhead = 24; // 12 to 14 KB
constexpr std::size_t kLine = 64;

// --- decoders: a tile's columns in order, eight rows a register

struct Column {
  __m256 rows[4];
  [[nodiscard]] DUCTL_INLINE_MEMBER __m256 row(int v) const { return rows[v]; }
};

DUCTL_INLINE __m256 widen(__m128i halves) { return _mm256_cvtph_ps(halves); }
DUCTL_INLINE __m128i load16(const std::byte* at) { return _mm_load_si128(reinterpret_cast<const __m128i*>(at)); }
DUCTL_INLINE __m256i load32(const std::byte* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }

// Halves from their low and high bytes; 128-bit operations throughout.
DUCTL_INLINE Column joined(__m128i low_0, __m128i high_0, __m128i low_16, __m128i high_16) {
  return {{widen(_mm_unpacklo_epi8(low_0, high_0)), widen(_mm_unpackhi_epi8(low_0, high_0)),
           widen(_mm_unpacklo_epi8(low_16, high_16)), widen(_mm_unpackhi_epi8(low_16, high_16))}};
}

// Halves of eight columns on their way through the first-level cache. A conversion that loads is one operation on big cores; from
// a register it is two, and the upper half of a register would have to be moved down before.
class Bounce {
public:
  // Unpacking works within each half of a register: rows 0-7 and 16-23, then 8-15 and 24-31.
  DUCTL_INLINE_MEMBER void put(int j, __m256i low, __m256i high) {
    asm("" : "+x"(high)); // loaded once, not by each of the two
    _mm256_store_si256(place(j), _mm256_unpacklo_epi8(low, high));
    _mm256_store_si256(place(j) + 1, _mm256_unpackhi_epi8(low, high));
  }
  // Else the compiler moves the halves in registers after all.
  DUCTL_INLINE_MEMBER void settle() { asm("" : "+m"(halves_)); }
  DUCTL_INLINE_MEMBER __m256 get(int j, int v) const {
    constexpr int kPlace[] = {0, 2, 1, 3};
    return widen(reinterpret_cast<const __m128i*>(halves_ + 64 * j)[kPlace[v]]);
  }

private:
  DUCTL_INLINE_MEMBER __m256i* place(int j) { return reinterpret_cast<__m256i*>(halves_ + 64 * j); }
  alignas(64) std::byte halves_[8 * 64];
};

// Converted when it is used: beside the sums of three tokens there is a register for one.
struct BouncedColumn {
  const Bounce& bounce;
  int j;
  [[nodiscard]] DUCTL_INLINE_MEMBER __m256 row(int v) const { return bounce.get(j, v); }
};

// fp9: the plane holds the low mantissa bits, the current column's in bit 7; one plane serves eight columns.
struct Fp9Narrow {
  static constexpr std::size_t kTile = 576;
  static constexpr int kChains = 1; // one token's, side by side
  static constexpr float kUnit = 1;
  __m128i plane_0, plane_16;
  DUCTL_INLINE_MEMBER void begin(const std::byte* tile, int half) {
    plane_0 = load16(tile + 32 * half);
    plane_16 = load16(tile + 32 * half + 16);
  }
  DUCTL_INLINE_MEMBER Column next(const std::byte* tile, int column) {
    const __m128i top = _mm_set1_epi8(static_cast<char>(0x80));
    const std::byte* body = tile + 64 + 32 * column;
    const Column w = joined(_mm_and_si128(plane_0, top), load16(body), _mm_and_si128(plane_16, top), load16(body + 16));
    plane_0 = _mm_add_epi8(plane_0, plane_0);
    plane_16 = _mm_add_epi8(plane_16, plane_16);
    return w;
  }
};

struct Fp9Wide {
  static constexpr std::size_t kTile = 576;
  static constexpr int kChains = 2; // one token's, side by side
  static constexpr float kUnit = 1;
  Bounce bounce;
  DUCTL_INLINE_MEMBER void begin(const std::byte* tile, int half) {
    const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i plane = load32(tile + 32 * half);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      bounce.put(j, _mm256_and_si256(plane, top), load32(tile + 64 + 32 * (8 * half + j)));
      plane = _mm256_add_epi8(plane, plane);
    }
    bounce.settle();
  }
  DUCTL_INLINE_MEMBER BouncedColumn next(const std::byte*, int column) const { return {bounce, column % 8}; }
};

// e4m3: the byte doubled has the low mantissa bit on top; without that bit it is the high byte of a half 2^8 times too small.
struct E4m3Narrow {
  static constexpr std::size_t kTile = 512;
  static constexpr int kChains = 1; // one token's, side by side
  static constexpr float kUnit = 256;
  DUCTL_INLINE_MEMBER void begin(const std::byte*, int) {}
  DUCTL_INLINE_MEMBER Column next(const std::byte* tile, int column) {
    const __m128i top = _mm_set1_epi8(static_cast<char>(0x80)), rest = _mm_set1_epi8(static_cast<char>(0xBF));
    const __m128i b_0 = load16(tile + 32 * column), b_16 = load16(tile + 32 * column + 16);
    return joined(_mm_and_si128(_mm_add_epi8(b_0, b_0), top), _mm_and_si128(b_0, rest),
                  _mm_and_si128(_mm_add_epi8(b_16, b_16), top), _mm_and_si128(b_16, rest));
  }
};

struct E4m3Wide {
  static constexpr std::size_t kTile = 512;
  static constexpr int kChains = 2; // one token's, side by side
  static constexpr float kUnit = 256;
  Bounce bounce;
  DUCTL_INLINE_MEMBER void begin(const std::byte* tile, int half) {
    const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80)), rest = _mm256_set1_epi8(static_cast<char>(0xBF));
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      __m256i b = load32(tile + 32 * (8 * half + j));
      asm("" : "+x"(b));
      bounce.put(j, _mm256_and_si256(_mm256_add_epi8(b, b), top), _mm256_and_si256(b, rest));
    }
    bounce.settle();
  }
  DUCTL_INLINE_MEMBER BouncedColumn next(const std::byte*, int column) const { return {bounce, column % 8}; }
};

// --- a call's slices, and the walk over their tiles

// slice_layout() again, because this file may not include it; a test compares the two.
struct Shape {
  std::size_t scale_bytes, panel, down; // offsets in a slice
  int panel_tiles, down_tiles;
};

template <class D> Shape shape_of(const ExpertJob& job) {
  const auto blocks = static_cast<std::size_t>((job.hidden + kBlock - 1) / kBlock);
  Shape shape{};
  shape.scale_bytes = blocks * sizeof(float);
  shape.panel = (3 * shape.scale_bytes + kLine - 1) / kLine * kLine;
  shape.panel_tiles = job.hidden / kTileColumns;
  shape.down_tiles = job.hidden / kRows;
  shape.down = shape.panel + static_cast<std::size_t>(shape.panel_tiles) * D::kTile;
  return shape;
}

DUCTL_INLINE void prefetch_line(const std::byte* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1); }

// Runs kTilesAhead tiles ahead of the work. Scales are fetched where their slice's panel begins.
template <class D> class Ahead {
public:
  Ahead(const ExpertJob& job, const Shape& shape) : job_(job), shape_(shape) {
    at_ = job.slices[0] + shape.panel;
    left_ = shape.panel_tiles;
    for (int i = 0; i < kTilesAhead; ++i) move(); // the call before has fetched these
  }

  void skip_panels() {
    slice_ = job_.count, in_down_ = false;
    turn();
    for (int i = 0; i < kTilesAhead; ++i) move();
  }

  // The tile to prefetch beside the work on the next one.
  DUCTL_INLINE_MEMBER const std::byte* take() {
    const std::byte* tile = at_;
    move();
    return tile;
  }

  DUCTL_INLINE_MEMBER void fetch() {
    const std::byte* tile = take();
#pragma GCC unroll 9
    for (std::size_t line = 0; line < D::kTile / kLine; ++line) prefetch_line(tile + kLine * line);
  }

private:
  DUCTL_INLINE_MEMBER void move() {
    at_ += D::kTile;
    if (--left_ == 0) turn();
  }

  // At the end of a stretch of neighbouring tiles: a panel, or one tile of down where several slices alternate.
  __attribute__((noinline)) void turn() {
    if (++slice_ < job_.count && !in_down_) return begin_panel(job_.slices[slice_]);
    if (!in_down_) in_down_ = true, slice_ = 0, row_ = 0;
    if (slice_ == job_.count) slice_ = 0, ++row_;
    if (row_ == shape_.down_tiles) {
      row_ = 0; // whatever is stepped beyond the next slice's head reads on behind it
      left_ = 1 << 30;
      at_ = job_.next != nullptr ? job_.next + shape_.panel : at_;
      if (job_.next != nullptr) fetch_scales(job_.next);
      return;
    }
    at_ = job_.slices[slice_] + shape_.down + static_cast<std::size_t>(row_) * D::kTile;
    left_ = 1;
  }

  void begin_panel(const std::byte* slice) {
    fetch_scales(slice);
    at_ = slice + shape_.panel;
    left_ = shape_.panel_tiles;
  }

  void fetch_scales(const std::byte* slice) const {
    for (std::size_t line = 0; line < shape_.panel; line += kLine) prefetch_line(slice + line);
  }

  const ExpertJob& job_;
  const Shape& shape_;
  const std::byte* at_;
  int left_, slice_ = 0, row_ = 0;
  bool in_down_ = false;
};

DUCTL_INLINE const float* scales(const std::byte* slice, const Shape& shape, int which) {
  return reinterpret_cast<const float*>(slice + shape.scale_bytes * static_cast<std::size_t>(which));
}

// --- sums

// Sums of one chain of columns: 32 rows of each token.
template <int T> struct Sums { __m256 of[T][4]; };

template <int T> DUCTL_INLINE void clear(Sums<T>& sums) {
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sums.of[t][v] = _mm256_setzero_ps();
  }
}

// sums[token][rows] += tile * x, columns in order; of kChains tiles at once, whose sums do not meet: one alone waits for its own
// last multiply-add. `fetch` are the tiles to prefetch meanwhile, line by line: a burst of requests would hold up the loads.
template <class D, int T, int kChains>
DUCTL_INLINE void tiles_fma(const std::byte* const (&tile)[kChains], const float* const (&x)[kChains][T],
                            const std::byte* const (&fetch)[kChains], Sums<T> (&sums)[kChains]) {
  constexpr int kLines = D::kTile / kLine;
#pragma GCC unroll 2
  for (int chain = 0; chain < kChains; ++chain)
    if constexpr (kLines % 2 != 0) prefetch_line(fetch[chain] + kLine * (kLines - 1));
  D decoder[kChains];
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 2
    for (int chain = 0; chain < kChains; ++chain) decoder[chain].begin(tile[chain], half);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
#pragma GCC unroll 2
      for (int chain = 0; chain < kChains; ++chain) {
        if (j < kLines / 2) prefetch_line(fetch[chain] + static_cast<int>(kLine) * (kLines / 2 * half + j));
        const auto w = decoder[chain].next(tile[chain], 8 * half + j);
        __m256 value[T];
#pragma GCC unroll 3
        for (int t = 0; t < T; ++t) value[t] = _mm256_broadcast_ss(x[chain][t] + 8 * half + j);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const __m256 weight = w.row(v);
#pragma GCC unroll 3
          for (int t = 0; t < T; ++t) sums[chain].of[t][v] = _mm256_fmadd_ps(weight, value[t], sums[chain].of[t][v]);
        }
      }
    }
  }
}

// total = fma(scale, acc, total) at the end of a 128-column block; rows 0-15 are gate, 16-31 up.
template <int T> DUCTL_INLINE void end_block(const Sums<T>& sums, float gate_scale, float up_scale, float* total) {
  const __m256 gate = _mm256_set1_ps(gate_scale), up = _mm256_set1_ps(up_scale);
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      float* place = total + kRows * t + 8 * v;
      _mm256_store_ps(place, _mm256_fmadd_ps(v < 2 ? gate : up, sums.of[t][v], _mm256_load_ps(place)));
    }
  }
}

// y += round(acc * scale) in int32, 32 rows of each token.
template <int T> DUCTL_INLINE void add_fixed(const Sums<T>& sums, float scale, std::int32_t* const* y, int row) {
  const __m256 wide = _mm256_set1_ps(scale);
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      auto* place = reinterpret_cast<__m256i*>(y[t] + row + 8 * v);
      const __m256i part = _mm256_cvtps_epi32(_mm256_mul_ps(sums.of[t][v], wide));
      _mm256_storeu_si256(place, _mm256_add_epi32(_mm256_loadu_si256(place), part));
    }
  }
}

// --- SwiGLU

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
void activate(const ExpertJob& job, float guard_factor, const float* total, float* h) {
  for (int t = 0; t < job.tokens; ++t) {
    const float* sums = total + kRows * t;
    const __m256 weight = _mm256_set1_ps(job.weight[t]);
    const __m256 low = _mm256_mul_ps(_mm256_mul_ps(silu(_mm256_load_ps(sums)), _mm256_load_ps(sums + 16)), weight);
    const __m256 high = _mm256_mul_ps(_mm256_mul_ps(silu(_mm256_load_ps(sums + 8)), _mm256_load_ps(sums + 24)), weight);
    _mm256_store_ps(h + kChannels * t, low);
    _mm256_store_ps(h + kChannels * t + 8, high);
    add_to_guard(job.guard[t], guard_factor * l1_norm(low, high));
  }
}

// --- up to three tokens: decoded where they are used

// kChains blocks of 128 columns from `block` on, side by side.
template <class D, int T, int kChains>
DUCTL_INLINE void panel_blocks(const ExpertJob& job, const Shape& shape, const std::byte* slice, Ahead<D>& ahead, int block,
                               float* total) {
  const float *gate = scales(slice, shape, 0), *up = scales(slice, shape, 1);
  const std::byte* tile[kChains];
  const float* x[kChains][T];
  const std::byte* fetch[kChains];
  Sums<T> sums[kChains];
#pragma GCC unroll 2
  for (int chain = 0; chain < kChains; ++chain) {
    const int column = kBlock * (block + chain);
    tile[chain] = slice + shape.panel + static_cast<std::size_t>(column / kTileColumns) * D::kTile;
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) x[chain][t] = job.x[t] + column;
    clear(sums[chain]);
  }
  const int left = job.hidden - kBlock * block, columns = kChains > 1 || left > kBlock ? kBlock : left;
  for (int column = 0; column < columns; column += kTileColumns) {
#pragma GCC unroll 2
    for (int chain = 0; chain < kChains; ++chain) fetch[chain] = ahead.take();
    tiles_fma<D, T, kChains>(tile, x, fetch, sums);
#pragma GCC unroll 2
    for (int chain = 0; chain < kChains; ++chain) {
      tile[chain] += D::kTile;
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) x[chain][t] += kTileColumns;
    }
  }
#pragma GCC unroll 2
  for (int chain = 0; chain < kChains; ++chain)
    end_block<T>(sums[chain], gate[block + chain] * D::kUnit, up[block + chain] * D::kUnit, total);
}

template <class D, int T>
void panel_fused(const ExpertJob& job, const Shape& shape, const std::byte* slice, Ahead<D>& ahead, float* total) {
  constexpr int kChains = T == 1 ? D::kChains : 1;
  for (int i = 0; i < kRows * T; ++i) total[i] = 0;
  int block = 0;
  if constexpr (kChains > 1)
    for (; kBlock * (block + kChains) <= job.hidden; block += kChains)
      panel_blocks<D, T, kChains>(job, shape, slice, ahead, block, total);
  for (; kBlock * block < job.hidden; ++block) panel_blocks<D, T, 1>(job, shape, slice, ahead, block, total);
}

// One row panel of kChains slices from `number` on. h is [slice][token][channels].
template <class D, int T, int kChains>
DUCTL_INLINE void down_tiles(const ExpertJob& job, const Shape& shape, Ahead<D>& ahead, int number, int row, const float* h) {
  const std::byte* tile[kChains];
  const float* from[kChains][T];
  const std::byte* fetch[kChains];
  Sums<T> sums[kChains];
#pragma GCC unroll 2
  for (int chain = 0; chain < kChains; ++chain) {
    tile[chain] = job.slices[number + chain] + shape.down + static_cast<std::size_t>(row / kRows) * D::kTile;
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) from[chain][t] = h + kChannels * (T * (number + chain) + t);
    clear(sums[chain]);
    fetch[chain] = ahead.take();
  }
  tiles_fma<D, T, kChains>(tile, from, fetch, sums);
#pragma GCC unroll 2
  for (int chain = 0; chain < kChains; ++chain) {
    const float scale = scales(job.slices[number + chain], shape, 2)[row / kBlock];
    add_fixed<T>(sums[chain], scale * D::kUnit * job.fixed_scale[row / kBlock], job.y, row);
  }
}

template <class D, int T> void down_fused(const ExpertJob& job, const Shape& shape, Ahead<D>& ahead, const float* h) {
  constexpr int kChains = T == 1 ? D::kChains : 1;
  for (int row = 0; row < job.hidden; row += kRows) {
    int number = 0;
    if constexpr (kChains > 1)
      for (; number + kChains <= job.count; number += kChains) down_tiles<D, T, kChains>(job, shape, ahead, number, row, h);
    for (; number < job.count; ++number) down_tiles<D, T, 1>(job, shape, ahead, number, row, h);
  }
}

template <class D, int T> void forward_fused(const ExpertJob& job) {
  const Shape shape = shape_of<D>(job);
  Ahead<D> ahead(job, shape);
  float *total = job.scratch, *h = total + kRows * T;
  for (int number = 0; number < job.count; ++number) {
    panel_fused<D, T>(job, shape, job.slices[number], ahead, total);
    activate(job, job.guard_factor[number], total, h + kChannels * T * number);
  }
  down_fused<D, T>(job, shape, ahead, h);
}

// --- four tokens and more: decoded once into scratch, [column][32 rows]

template <class D> void decode_tile(const std::byte* tile, float* out) {
  D decoder;
  for (int half = 0; half < 2; ++half) {
    decoder.begin(tile, half);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j, out += kRows) {
      const auto w = decoder.next(tile, 8 * half + j);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) _mm256_store_ps(out + 8 * v, w.row(v));
    }
  }
}

template <int T> DUCTL_INLINE void block_fma(const float* w, int columns, const float* const* x, int column, Sums<T>& sums) {
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
      for (int t = 0; t < T; ++t) sums.of[t][v] = _mm256_fmadd_ps(weight, value[t], sums.of[t][v]);
    }
  }
}

// How many tokens the next step takes: three, but never leaving a single one behind.
int next_tokens(int left) { return left == 4 || left == 2 ? 2 : left >= 3 ? 3 : left; }

template <int T>
void panel_step(const float* w, int columns, const float* const* x, int column, float gate_scale, float up_scale, float* total) {
  Sums<T> sums;
  clear(sums);
  block_fma<T>(w, columns, x, column, sums);
  end_block<T>(sums, gate_scale, up_scale, total);
}

template <class D>
void panel_batch(const ExpertJob& job, const Shape& shape, const std::byte* slice, Ahead<D>& ahead, float* w, float* total) {
  for (int i = 0; i < kRows * job.tokens; ++i) total[i] = 0;
  const float *gates = scales(slice, shape, 0), *ups = scales(slice, shape, 1);
  const std::byte* tile = slice + shape.panel;
  for (int column = 0, block = 0; column < job.hidden; column += kBlock, ++block) {
    const int columns = column + kBlock < job.hidden ? kBlock : job.hidden - column;
    for (int c = 0; c < columns; c += kTileColumns, tile += D::kTile) {
      ahead.fetch();
      decode_tile<D>(tile, w + kRows * c);
    }
    const float gate = gates[block] * D::kUnit, up = ups[block] * D::kUnit;
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

template <int T> DUCTL_INLINE void down_step(const float* w, const float* h, float scale, std::int32_t* const* y, int row) {
  const float* from[T];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) from[t] = h + kChannels * t;
  Sums<T> sums;
  clear(sums);
  block_fma<T>(w, kChannels, from, 0, sums);
  add_fixed<T>(sums, scale, y, row);
}

// Rows outermost: 32 rows of all tokens' sums stay near while every slice adds to them.
template <class D> void down_batch(const ExpertJob& job, const Shape& shape, Ahead<D>& ahead, float* w, const float* h) {
  const std::size_t slice_floats = static_cast<std::size_t>(kChannels) * static_cast<std::size_t>(job.tokens);
  float scale[kCallSlicesMax];
  for (int row = 0, panel = 0; row < job.hidden; row += kRows, ++panel) {
    for (int number = 0; number < job.count; ++number) {
      ahead.fetch();
      decode_tile<D>(job.slices[number] + shape.down + static_cast<std::size_t>(panel) * D::kTile,
                     w + kRows * kChannels * number);
      scale[number] = scales(job.slices[number], shape, 2)[row / kBlock] * D::kUnit * job.fixed_scale[row / kBlock];
    }
    for (int t = 0; t < job.tokens;) {
      const int step = next_tokens(job.tokens - t);
      for (int number = 0; number < job.count; ++number) {
        const float* from = h + slice_floats * static_cast<std::size_t>(number) + static_cast<std::size_t>(kChannels * t);
        const float* decoded = w + kRows * kChannels * number;
        if (step == 3)
          down_step<3>(decoded, from, scale[number], job.y + t, row);
        else
          down_step<2>(decoded, from, scale[number], job.y + t, row);
      }
      t += step;
    }
  }
}

template <class D> void forward_batch(const ExpertJob& job) {
  const Shape shape = shape_of<D>(job);
  Ahead<D> ahead(job, shape);
  float *w = job.scratch, *total = w + kRows * kBlock, *h = total + kRows * job.tokens;
  for (int number = 0; number < job.count; ++number) {
    panel_batch<D>(job, shape, job.slices[number], ahead, w, total);
    activate(job, job.guard_factor[number], total, h + static_cast<std::ptrdiff_t>(kChannels) * job.tokens * number);
  }
  down_batch<D>(job, shape, ahead, w, h);
}

template <class D> void down_only_in(const ExpertJob& job) {
  const Shape shape = shape_of<D>(job);
  Ahead<D> ahead(job, shape);
  ahead.skip_panels();
  down_batch<D>(job, shape, ahead, job.scratch, job.scratch + kRows * kBlock + kRows * job.tokens);
}

template <class D> void forward_in(const ExpertJob& job) {
  switch (job.tokens) {
  case 1: return forward_fused<D, 1>(job);
  case 2: return forward_fused<D, 2>(job);
  case 3: return forward_fused<D, 3>(job);
  default: return forward_batch<D>(job);
  }
}

template <class Fp9, class E4m3> void forward(const ExpertJob& job) {
  job.format == weights::TileFormat::NineBit ? forward_in<Fp9>(job) : forward_in<E4m3>(job);
}

template <class Fp9, class E4m3> void down_only(const ExpertJob& job) {
  job.format == weights::TileFormat::NineBit ? down_only_in<Fp9>(job) : down_only_in<E4m3>(job);
}

} // namespace

const ExpertKernels& avx2_narrow_kernels() {
  static constexpr ExpertKernels kTable{"avx2-128", forward<Fp9Narrow, E4m3Narrow>, down_only<Fp9Narrow, E4m3Narrow>};
  return kTable;
}

const ExpertKernels& avx2_wide_kernels() {
  static constexpr ExpertKernels kTable{"avx2-256", forward<Fp9Wide, E4m3Wide>, down_only<Fp9Wide, E4m3Wide>};
  return kTable;
}

} // namespace ductl::agent
