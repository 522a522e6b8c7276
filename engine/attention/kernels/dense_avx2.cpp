// dense.hpp's chains in registers: one vector accumulator an output, 3 rows x 4 tokens (12 accumulators) at a time.
//
// Up to three tokens read the weights once and convert them on the way to the multiply-add (product_few). More tokens convert a
// strip of rows once into a small buffer in L1 and use it for all of them (product_many). Between strips an accumulator
// lies in memory, which changes no bit. fp8 codes read as half are 2^-8 of their values, so that block scales are taken 2^8
// times too large.
#include "engine/attention/kernels/dense.hpp"

#include <immintrin.h>

#define DUCTL_INLINE inline __attribute__((always_inline))

namespace ductl::engine {
namespace {

constexpr int kStrip = 512; // columns converted at a time; a multiple of the scale block
constexpr int kFewTokens = 3;
constexpr int kRowTile = 3, kTokenTile = 4;
constexpr int kTokenBlock = 64;
constexpr int kRowBlock = 48;  // rows that use a strip of the tokens while it is in L2
constexpr int kStripRows = 64; // rows converted at a time, transposed
constexpr int kPanel = 32;     // columns at a time, transposed

using Type = DenseType;

__m256i tail_mask(int count) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

float tree(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

constexpr int element_bytes(Type type) { return type == Type::F32 ? 4 : type == Type::F8E4M3 ? 1 : 2; }

// Loops over registers are unrolled whole, else the accumulators would live in memory: hence the pragmas below.

// Eight elements as floats, an fp8 one as 2^-8 of its value.
template <Type kType> __m256 load8(const std::uint8_t* at) {
  if constexpr (kType == Type::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  if constexpr (kType == Type::F16) return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  if constexpr (kType == Type::Bf16) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  if constexpr (kType == Type::F8E4M3) {
    const __m128i codes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    // sign extended, so the sign is in bit 15 after the shift, and once more in bit 14 where it must go
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(codes, 7), _mm_set1_epi16(short(0xbfff))));
  }
}

// The last columns of a row, fewer than eight; the missing ones are zero.
template <Type kType> __m256 load_tail(const std::uint8_t* at, int count) {
  std::uint8_t buffer[32] = {};
  __builtin_memcpy(buffer, at, std::size_t(count) * element_bytes(kType));
  return load8<kType>(buffer);
}

// Of fp8: the scale of a block x 2^8.
float scale_of(const DenseMatrix& w, int row, int column) {
  const std::ptrdiff_t across = (w.columns + kDenseScaleBlock - 1) / kDenseScaleBlock;
  const std::ptrdiff_t index = (w.first_row + row) / kDenseScaleBlock * across + column / kDenseScaleBlock;
  float scale = 0;
  if (w.scale_bf16) {
    std::uint16_t half = 0;
    __builtin_memcpy(&half, w.scale + 2 * index, sizeof half);
    const std::uint32_t bits = std::uint32_t(half) << 16;
    __builtin_memcpy(&scale, &bits, sizeof scale);
  } else {
    __builtin_memcpy(&scale, w.scale + 4 * index, sizeof scale);
  }
  return scale * 256;
}

// -------------------------------------------------------------------------------------------------------- few tokens

// Rows at a time: as many chains as hide the latency of a multiply-add, if registers suffice.
template <int kTokens> constexpr int kFewRows = kTokens == 1 ? 8 : 4;

// Sums lie as [row][token].
template <int kCount> DUCTL_INLINE void clear(__m256 (&sums)[kCount]) {
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) sums[i] = _mm256_setzero_ps();
}

template <int kTokens, int kCount> DUCTL_INLINE void store_trees(const __m256 (&sums)[kCount], const DenseProduct& job, int row) {
#pragma GCC unroll 12
  for (int i = 0; i < kCount; ++i) job.y[i % kTokens * job.y_stride + row + i / kTokens] = tree(sums[i]);
}

// The rows of one step lie together, and so do those of the next step behind them. While these are multiplied, column by column,
// those are fetched front to back, as much as is read meanwhile: memory likes one sweep better than eight.
DUCTL_INLINE void prefetch_line(const std::uint8_t* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }

// sums += w[row] * x[token] over the columns from..end-1.
template <Type kType, int kRows, int kTokens>
DUCTL_INLINE void few_columns(const std::uint8_t* base, std::ptrdiff_t pitch, const float* x, std::ptrdiff_t x_stride, int column,
                              int end, __m256 (&sums)[kRows * kTokens]) {
  constexpr int kBytes = element_bytes(kType), kLines = kRows * 8 * kBytes / 64;
  __m256 value[kTokens];
  for (; column + 8 <= end; column += 8) {
#pragma GCC unroll 3
    for (int t = 0; t < kTokens; ++t) value[t] = _mm256_loadu_ps(x + t * x_stride + column);
#pragma GCC unroll 4
    for (int line = 0; line < kLines; ++line) prefetch_line(base + kRows * (pitch + column * kBytes) + 64 * line);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 w = load8<kType>(base + r * pitch + column * kBytes);
#pragma GCC unroll 3
      for (int t = 0; t < kTokens; ++t) sums[kTokens * r + t] = _mm256_fmadd_ps(w, value[t], sums[kTokens * r + t]);
    }
  }
  if (column == end) return;
#pragma GCC unroll 3
  for (int t = 0; t < kTokens; ++t) value[t] = _mm256_maskload_ps(x + t * x_stride + column, tail_mask(end - column));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m256 w = load_tail<kType>(base + r * pitch + column * kBytes, end - column);
#pragma GCC unroll 3
    for (int t = 0; t < kTokens; ++t) sums[kTokens * r + t] = _mm256_fmadd_ps(w, value[t], sums[kTokens * r + t]);
  }
}

template <Type kType, int kRows, int kTokens> void few_rows(const DenseProduct& job, int row) {
  const DenseMatrix& w = *job.matrix;
  const std::ptrdiff_t pitch = row_pitch(w) * element_bytes(kType);
  __m256 sums[kRows * kTokens];
  clear(sums);
  few_columns<kType, kRows, kTokens>(w.data + row * pitch, pitch, job.x, job.x_stride, 0, w.columns, sums);
  store_trees<kTokens>(sums, job, row);
}

// 32 columns of fp8 of some rows as halves, on their way through the first-level cache: a conversion that loads is one operation
// on big cores, from a register it is two, and the upper half of a register would have to be moved down before.
class Fp8Step {
public:
  static constexpr int kColumns = 32;
  // Unpacking works within each half of a register: columns 0-7 and 16-23, then 8-15 and 24-31.
  DUCTL_INLINE void put(int row, const std::uint8_t* at) {
    __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), zero = _mm256_setzero_si256();
    asm("" : "+x"(codes)); // loaded once, not by each of the two
    _mm256_store_si256(&halves_[2 * row], half(_mm256_unpacklo_epi8(zero, codes)));
    _mm256_store_si256(&halves_[2 * row + 1], half(_mm256_unpackhi_epi8(zero, codes)));
  }
  // Else the compiler moves the halves in registers after all.
  DUCTL_INLINE void settle() { asm("" : "+m"(halves_)); }
  [[nodiscard]] DUCTL_INLINE __m256 get(int row, int vector) const {
    constexpr int kPlace[] = {0, 2, 1, 3};
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(&halves_[2 * row]) + kPlace[vector]));
  }

private:
  // The shift copies the sign into bit 14, where it does not belong.
  static __m256i half(__m256i high_bytes) {
    return _mm256_and_si256(_mm256_srai_epi16(high_bytes, 1), _mm256_set1_epi16(short(0xbfff)));
  }
  __m256i halves_[2 * 8];
};

// sums += the 32 columns in `now`; meanwhile those from `next` on get into `then`. Either alone would leave units idle.
template <int kRows, int kTokens>
DUCTL_INLINE void fp8_step(const Fp8Step& now, Fp8Step& then, const std::uint8_t* next, std::ptrdiff_t pitch,
                           const std::uint8_t* fetch, const float* x, std::ptrdiff_t x_stride, __m256 (&sums)[kRows * kTokens]) {
  constexpr int kPuts = (kRows + 3) / 4; // beside eight columns
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    __m256 value[kTokens];
#pragma GCC unroll 3
    for (int t = 0; t < kTokens; ++t) value[t] = _mm256_loadu_ps(x + t * x_stride + 8 * v);
    if (v < kRows / 2) prefetch_line(fetch + 64 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int put = kPuts * v + r / 4;
      if (r % 4 == 0 && put < kRows) then.put(put, next + put * pitch);
      const __m256 w = now.get(r, v);
#pragma GCC unroll 3
      for (int t = 0; t < kTokens; ++t) sums[kTokens * r + t] = _mm256_fmadd_ps(w, value[t], sums[kTokens * r + t]);
    }
  }
  then.settle();
}

// The rows lie in one block of 128.
template <int kRows, int kTokens> void fp8_rows(const DenseProduct& job, int row) {
  constexpr int kColumns = Fp8Step::kColumns;
  const DenseMatrix& w = *job.matrix;
  const std::ptrdiff_t pitch = row_pitch(w);
  const std::uint8_t* base = w.data + row * pitch;
  const int whole = w.columns / kColumns * kColumns;
  Fp8Step steps[2], *now = &steps[0], *then = &steps[1];
  for (int r = 0; r < kRows && whole > 0; ++r) now->put(r, base + r * pitch);
  now->settle();
  __m256 total[kRows * kTokens];
  clear(total);
  for (int column = 0; column < w.columns;) {
    const __m256 scale = _mm256_set1_ps(scale_of(w, row, column));
    const int end = column + kDenseScaleBlock < w.columns ? column + kDenseScaleBlock : w.columns;
    __m256 sums[kRows * kTokens];
    clear(sums);
    for (; column + kColumns <= end; column += kColumns) {
      const int next = column + kColumns < whole ? column + kColumns : column;
      fp8_step<kRows, kTokens>(*now, *then, base + next, pitch, base + kRows * (pitch + column), job.x + column, job.x_stride,
                               sums);
      Fp8Step* const used = now;
      now = then, then = used;
    }

    few_columns<Type::F8E4M3, kRows, kTokens>(base, pitch, job.x, job.x_stride, column, end, sums);
    column = end;
#pragma GCC unroll 12
    for (int i = 0; i < kRows * kTokens; ++i) total[i] = _mm256_fmadd_ps(scale, sums[i], total[i]);
  }
  store_trees<kTokens>(total, job, row);
}

template <Type kType, int kRows, int kTokens> void any_rows(const DenseProduct& job, int row) {
  if constexpr (kType == Type::F8E4M3)
    fp8_rows<kRows, kTokens>(job, row);
  else
    few_rows<kType, kRows, kTokens>(job, row);
}

template <Type kType, int kTokens> void product_few(const DenseProduct& job) {
  constexpr int kRows = kFewRows<kTokens>;
  for (int row = job.row_begin; row < job.row_end;) {
    const int in_block = kDenseScaleBlock - (job.matrix->first_row + row) % kDenseScaleBlock;
    const int end = row + in_block < job.row_end ? row + in_block : job.row_end;
    for (; row + kRows <= end; row += kRows) any_rows<kType, kRows, kTokens>(job, row);
    for (; row < end; ++row) any_rows<kType, 1, kTokens>(job, row);
  }
}

// -------------------------------------------------------------------------------------------------------- many tokens

struct Strip { // `count` columns of some rows as floats
  const float* w;
  std::ptrdiff_t w_stride;
  int count;
  float scale[kRowTile][kStrip / kDenseScaleBlock]; // of fp8: by row and block
};

// As load8 gives them, not yet scaled.
template <Type kType> void convert_row(const DenseMatrix& w, int row, int column, int count, float* out) {
  constexpr int kBytes = element_bytes(kType);
  const std::ptrdiff_t pitch = row_pitch(w) * kBytes;
  const std::uint8_t* at = w.data + row * pitch + column * kBytes;
  // The same strip of the tile after next: the hardware does not guess jumps from row to row.
  for (int line = 0; line < count * kBytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + 2 * kRowTile * pitch + line), _MM_HINT_T0);
  int c = 0;
  for (; c + 8 <= count; c += 8) _mm256_storeu_ps(out + c, load8<kType>(at + c * kBytes));
  if (c < count) _mm256_storeu_ps(out + c, load_tail<kType>(at + c * kBytes, count - c));
}

// The accumulators of a block lie as [token / kTokenTile][row][token % kTokenTile], so that a tile's are together and so are
// those that are stored together. kRows x kTokens of them, from `sum` on, go on by the strip's columns.
template <int kRows, int kTokens>
DUCTL_INLINE void tile_columns(const Strip& strip, const float* x, std::ptrdiff_t x_stride, int c, int end,
                               __m256 (&acc)[kRows][kTokens]) {
  for (; c + 8 <= end; c += 8) {
    __m256 w[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) w[r] = _mm256_loadu_ps(strip.w + r * strip.w_stride + c);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 v = _mm256_loadu_ps(x + t * x_stride + c);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[r][t] = _mm256_fmadd_ps(w[r], v, acc[r][t]);
    }
  }
  if (c == end) return;
  const __m256i mask = tail_mask(end - c);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256 v = _mm256_maskload_ps(x + t * x_stride + c, mask);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      acc[r][t] = _mm256_fmadd_ps(_mm256_maskload_ps(strip.w + r * strip.w_stride + c, mask), v, acc[r][t]);
  }
}

template <int kRows, int kTokens> void tile(const Strip& strip, const float* x, std::ptrdiff_t x_stride, __m256* sum) {
  __m256 acc[kRows][kTokens];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) acc[r][t] = sum[r * kTokenTile + t];
  tile_columns(strip, x, x_stride, 0, strip.count, acc);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) sum[r * kTokenTile + t] = acc[r][t];
}

// The same of fp8: sums from zero within a block, added with its scale.
template <int kRows, int kTokens> void scaled_tile(const Strip& strip, const float* x, std::ptrdiff_t x_stride, __m256* sum) {
  for (int begin = 0, block = 0; begin < strip.count; begin += kDenseScaleBlock, ++block) {
    const int end = begin + kDenseScaleBlock < strip.count ? begin + kDenseScaleBlock : strip.count;
    __m256 acc[kRows][kTokens];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) acc[r][t] = _mm256_setzero_ps();
    tile_columns(strip, x, x_stride, begin, end, acc);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 scale = _mm256_set1_ps(strip.scale[r][block]);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        __m256& total = sum[r * kTokenTile + t];
        total = _mm256_fmadd_ps(scale, acc[r][t], total);
      }
    }
  }
}

template <Type kType, int kRows, int kTokens>
void any_tile(const Strip& strip, const float* x, std::ptrdiff_t x_stride, __m256* sum) {
  if constexpr (kType == Type::F8E4M3)
    scaled_tile<kRows, kTokens>(strip, x, x_stride, sum);
  else
    tile<kRows, kTokens>(strip, x, x_stride, sum);
}

template <Type kType, int kRows>
void strip_tokens(const Strip& strip, const float* x, std::ptrdiff_t x_stride, int tokens, __m256* sum) {
  for (int t = 0; t < tokens; t += kTokenTile, sum += kRowBlock * kTokenTile) {
    const float* from = x + t * x_stride;
    switch (tokens - t) {
    case 1: any_tile<kType, kRows, 1>(strip, from, x_stride, sum); break;
    case 2: any_tile<kType, kRows, 2>(strip, from, x_stride, sum); break;
    case 3: any_tile<kType, kRows, 3>(strip, from, x_stride, sum); break;
    default: any_tile<kType, kRows, kTokenTile>(strip, from, x_stride, sum); break;
    }
  }
}

// The tree of four accumulators at once.
__m128 tree4(const __m256* sum) {
  __m128 four[4];
  for (int i = 0; i < 4; ++i) four[i] = _mm_add_ps(_mm256_castps256_ps128(sum[i]), _mm256_extractf128_ps(sum[i], 1));
  _MM_TRANSPOSE4_PS(four[0], four[1], four[2], four[3]);
  return _mm_add_ps(_mm_add_ps(four[0], four[2]), _mm_add_ps(four[1], four[3]));
}

// Four tokens at a time over all rows: y is written along its rows.
void store_sums(const __m256* sum, int rows, int tokens, float* y, std::ptrdiff_t y_stride) {
  for (int t = 0; t < tokens; t += kTokenTile, sum += kRowBlock * kTokenTile) {
    const int count = tokens - t < kTokenTile ? tokens - t : kTokenTile;
    for (int r = 0; r < rows; ++r) {
      float four[4];
      _mm_storeu_ps(four, tree4(sum + r * kTokenTile));
      for (int i = 0; i < count; ++i) y[(t + i) * y_stride + r] = four[i];
    }
  }
}

// One strip of kRows rows for a block of tokens.
template <Type kType, int kRows>
void many_rows(const DenseProduct& job, int row, int column, int token, int tokens, __m256* sum) {
  const DenseMatrix& w = *job.matrix;
  alignas(32) float buffer[kRows * kStrip];
  Strip strip;
  strip.w = buffer;
  strip.w_stride = kStrip;
  strip.count = column + kStrip < w.columns ? kStrip : w.columns - column;
  if constexpr (kType == Type::F32) {
    strip.w = reinterpret_cast<const float*>(w.data + (row * row_pitch(w) + column) * 4);
    strip.w_stride = row_pitch(w);
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) convert_row<kType>(w, row + r, column, strip.count, buffer + r * kStrip);
  }
  if constexpr (kType == Type::F8E4M3) {
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < strip.count; c += kDenseScaleBlock)
        strip.scale[r][c / kDenseScaleBlock] = scale_of(w, row + r, column + c);
  }
  strip_tokens<kType, kRows>(strip, job.x + token * job.x_stride + column, job.x_stride, tokens, sum);
}

// A block of rows for a block of tokens, strip by strip: the tokens' strip stays in L2 for all the rows.
template <Type kType> void many_block(const DenseProduct& job, int row_begin, int rows, int token, int tokens) {
  __m256 sum[kRowBlock * kTokenBlock];
  for (int t = 0; t < tokens; t += kTokenTile)
    for (int i = 0; i < rows * kTokenTile; ++i) sum[t * kRowBlock + i] = _mm256_setzero_ps();
  for (int column = 0; column < job.matrix->columns; column += kStrip) {
    int r = 0;
    for (; r + kRowTile <= rows; r += kRowTile)
      many_rows<kType, kRowTile>(job, row_begin + r, column, token, tokens, sum + r * kTokenTile);
    for (; r < rows; ++r) many_rows<kType, 1>(job, row_begin + r, column, token, tokens, sum + r * kTokenTile);
  }
  store_sums(sum, rows, tokens, job.y + token * job.y_stride + row_begin, job.y_stride);
}

template <Type kType> void product_many(const DenseProduct& job) {
  for (int token = 0; token < job.tokens; token += kTokenBlock) {
    const int tokens = token + kTokenBlock < job.tokens ? kTokenBlock : job.tokens - token;
    for (int row = job.row_begin; row < job.row_end; row += kRowBlock)
      many_block<kType>(job, row, row + kRowBlock < job.row_end ? kRowBlock : job.row_end - row, token, tokens);
  }
}

template <Type kType> void product(const DenseProduct& job) {
  switch (job.tokens) {
  case 1: return product_few<kType, 1>(job);
  case 2: return product_few<kType, 2>(job);
  case kFewTokens: return product_few<kType, kFewTokens>(job);
  default: return product_many<kType>(job);
  }
}

// --------------------------------------------------------------------------------------------------------- transposed

struct Panel { // some rows of at most kPanel columns as floats, and where they go
  const float* w;
  std::ptrdiff_t w_stride;
  int rows, columns;
  const float* x;
  std::ptrdiff_t x_stride;
  float* y;
  std::ptrdiff_t y_stride;
};

template <int kVectors, int kTokens> void panel_tile(const Panel& p, int column, int token) {
  __m256 acc[kTokens][kVectors];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[t][v] = _mm256_loadu_ps(p.y + (token + t) * p.y_stride + column + 8 * v);
  for (int row = 0; row < p.rows; ++row) {
    __m256 w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = _mm256_loadu_ps(p.w + row * p.w_stride + column + 8 * v);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 x = _mm256_broadcast_ss(p.x + (token + t) * p.x_stride + row);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[t][v] = _mm256_fmadd_ps(w[v], x, acc[t][v]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(p.y + (token + t) * p.y_stride + column + 8 * v, acc[t][v]);
}

// The last columns, fewer than eight, of one token.
void panel_tail(const Panel& p, int column, int token) {
  const __m256i mask = tail_mask(p.columns - column);
  float* y = p.y + token * p.y_stride + column;
  __m256 acc = _mm256_maskload_ps(y, mask);
  for (int row = 0; row < p.rows; ++row) {
    const __m256 w = _mm256_maskload_ps(p.w + row * p.w_stride + column, mask);
    acc = _mm256_fmadd_ps(w, _mm256_broadcast_ss(p.x + token * p.x_stride + row), acc);
  }
  _mm256_maskstore_ps(y, mask, acc);
}

template <int kVectors> void panel_tokens(const Panel& p, int column, int tokens) {
  int t = 0;
  for (; t + 3 <= tokens; t += 3) panel_tile<kVectors, 3>(p, column, t);
  if (tokens - t == 2) panel_tile<kVectors, 2>(p, column, t);
  if (tokens - t == 1) panel_tile<kVectors, 1>(p, column, t);
}

void run_panel(const Panel& p, int tokens) {
  int column = 0;
  for (; column + 32 <= p.columns; column += 32) panel_tokens<4>(p, column, tokens);
  for (; column + 8 <= p.columns; column += 8) panel_tokens<1>(p, column, tokens);
  for (int t = 0; t < tokens && column < p.columns; ++t) panel_tail(p, column, t);
}

// A panel lies in one block of 128 columns.
void scale_row(float scale, float* w) {
  for (int c = 0; c < kPanel; c += 8) _mm256_store_ps(w + c, _mm256_mul_ps(_mm256_load_ps(w + c), _mm256_set1_ps(scale)));
}

template <Type kType> void transposed(const DenseTransposed& job) {
  const DenseMatrix& w = *job.matrix;
  alignas(32) float buffer[kStripRows * kPanel];
  for (int column = 0; column < w.columns; column += kPanel) {
    const int columns = column + kPanel < w.columns ? kPanel : w.columns - column;
    for (int row = job.row_begin; row < job.row_end; row += kStripRows) {
      Panel p{buffer,         kPanel,      row + kStripRows < job.row_end ? kStripRows : job.row_end - row,
              columns,        job.x + row, job.x_stride,
              job.y + column, job.y_stride};
      if constexpr (kType == Type::F32) {
        p.w = reinterpret_cast<const float*>(w.data + (row * row_pitch(w) + column) * 4);
        p.w_stride = row_pitch(w);
      } else {
        for (int r = 0; r < p.rows; ++r) {
          convert_row<kType>(w, row + r, column, columns, buffer + r * kPanel);
          if constexpr (kType == Type::F8E4M3) scale_row(scale_of(w, row + r, column), buffer + r * kPanel);
        }
      }
      run_panel(p, job.tokens);
    }
  }
}

} // namespace

void dense_product_avx2(const DenseProduct& job) {
  switch (job.matrix->type) {
  case Type::F32: return product<Type::F32>(job);
  case Type::F16: return product<Type::F16>(job);
  case Type::Bf16: return product<Type::Bf16>(job);
  case Type::F8E4M3: return product<Type::F8E4M3>(job);
  }
}

void dense_transposed_avx2(const DenseTransposed& job) {
  switch (job.matrix->type) {
  case Type::F32: return transposed<Type::F32>(job);
  case Type::F16: return transposed<Type::F16>(job);
  case Type::Bf16: return transposed<Type::Bf16>(job);
  case Type::F8E4M3: return transposed<Type::F8E4M3>(job);
  }
}

} // namespace ductl::engine
