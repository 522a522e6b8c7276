// dense.hpp's chains in registers: one vector accumulator an output, 3 rows x 4 tokens (12 accumulators) at a time.
//
// One token reads the weights once and converts them on the way to the multiply-add (product_one). More tokens convert a
// strip of rows once into a small buffer in L1 and use it for all of them (product_many). Between strips an accumulator
// lies in memory, which changes no bit.
#include "engine/attention/kernels/dense.hpp"

#include <immintrin.h>

namespace ductl::engine {
namespace {

constexpr int kStrip = 512; // columns converted at a time; a multiple of the scale block
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

// Eight elements as floats; `scale` is the block's scale x 256 (fp8 read as half is 2^-8 of its value).
template <Type kType> __m256 load8(const std::uint8_t* at, __m256 scale) {
  if constexpr (kType == Type::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  if constexpr (kType == Type::F16) return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  if constexpr (kType == Type::Bf16) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  if constexpr (kType == Type::F8E4M3) {
    const __m128i codes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    // sign extended, so the sign is in bit 15 after the shift, and once more in bit 14 where it must go
    const __m128i half = _mm_and_si128(_mm_slli_epi16(codes, 7), _mm_set1_epi16(short(0xbfff)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), scale);
  }
}

// Columns of a step, and rows at a time for one token: as many chains as hide the latency of a multiply-add. fp8 has more to do
// between two of them.
template <Type kType> constexpr int kStep = kType == Type::F8E4M3 ? 32 : 8;
template <Type kType> constexpr int kOneRows = kType == Type::F8E4M3 ? 4 : 8;

// sum + w * x for the kStep columns from `at` on. 32 bytes of fp8 unpack to their halves' high bytes within each half of a
// register: the first holds columns 0-7 and 16-23, the second 8-15 and 24-31.
template <Type kType> __m256 add_step(__m256 sum, const std::uint8_t* at, __m256 scale, const float* x) {
  if constexpr (kType == Type::F8E4M3) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), zero = _mm256_setzero_si256();
    const __m256i value = _mm256_set1_epi16(short(0xbfff)); // the shift copies the sign
    const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpacklo_epi8(zero, codes), 1), value);
    const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpackhi_epi8(zero, codes), 1), value);
    const __m256 w_0 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(even)), scale);
    const __m256 w_8 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(odd)), scale);
    const __m256 w_16 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(even, 1)), scale);
    const __m256 w_24 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1)), scale);
    sum = _mm256_fmadd_ps(w_0, _mm256_loadu_ps(x), sum);
    sum = _mm256_fmadd_ps(w_8, _mm256_loadu_ps(x + 8), sum);
    sum = _mm256_fmadd_ps(w_16, _mm256_loadu_ps(x + 16), sum);
    return _mm256_fmadd_ps(w_24, _mm256_loadu_ps(x + 24), sum);
  } else {
    return _mm256_fmadd_ps(load8<kType>(at, scale), _mm256_loadu_ps(x), sum);
  }
}

// The last columns of a row, fewer than eight; the missing ones are zero.
template <Type kType> __m256 load_tail(const std::uint8_t* at, int count, __m256 scale) {
  std::uint8_t buffer[32] = {};
  __builtin_memcpy(buffer, at, std::size_t(count) * element_bytes(kType));
  return load8<kType>(buffer, scale);
}

template <Type kType> __m256 scale_of(const DenseMatrix& w, int row, int column) {
  if constexpr (kType != Type::F8E4M3) return _mm256_setzero_ps();
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
  return _mm256_set1_ps(scale * 256);
}

// ---------------------------------------------------------------------------------------------------------- one token

// Asks for what comes `ahead` bytes later, for as much of a row as a block of 128 columns holds.
template <Type kType> void prefetch_block(const std::uint8_t* at, std::ptrdiff_t ahead) {
  for (int line = 0; line < kDenseScaleBlock * element_bytes(kType); line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + ahead + line), _MM_HINT_T0);
}

template <Type kType, int kRows> void one_rows(const DenseProduct& job, int row) {
  constexpr int kBytes = element_bytes(kType);
  const DenseMatrix& w = *job.matrix;
  const std::ptrdiff_t pitch = row_pitch(w) * kBytes;
  const std::uint8_t* base = w.data + row * pitch;
  // The next rows' same place, as long as that stays in the second-level cache until then; else further along.
  const std::ptrdiff_t ahead = kRows * pitch <= 131072 ? kRows * pitch : 1024;
  __m256 sum[kRows], scale[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sum[r] = scale[r] = _mm256_setzero_ps();
  for (int block = 0; block < w.columns; block += kDenseScaleBlock) {
    const int end = block + kDenseScaleBlock < w.columns ? block + kDenseScaleBlock : w.columns;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      scale[r] = scale_of<kType>(w, row + r, block);
      prefetch_block<kType>(base + r * pitch + block * kBytes, ahead);
    }
    int column = block;
    for (; column + kStep<kType> <= end; column += kStep<kType>)
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        sum[r] = add_step<kType>(sum[r], base + r * pitch + column * kBytes, scale[r], job.x + column);
    for (; column + 8 <= end; column += 8) // fp8 only
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        sum[r] =
            _mm256_fmadd_ps(load8<kType>(base + r * pitch + column * kBytes, scale[r]), _mm256_loadu_ps(job.x + column), sum[r]);
    if (column < end) {
      const __m256 x = _mm256_maskload_ps(job.x + column, tail_mask(end - column));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        sum[r] = _mm256_fmadd_ps(load_tail<kType>(base + r * pitch + column * kBytes, end - column, scale[r]), x, sum[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) job.y[row + r] = tree(sum[r]);
}

template <Type kType> void product_one(const DenseProduct& job) {
  int row = job.row_begin;
  for (; row + kOneRows<kType> <= job.row_end; row += kOneRows<kType>) one_rows<kType, kOneRows<kType>>(job, row);
  for (; row + 2 <= job.row_end; row += 2) one_rows<kType, 2>(job, row);
  for (; row < job.row_end; ++row) one_rows<kType, 1>(job, row);
}

// -------------------------------------------------------------------------------------------------------- many tokens

struct Strip { // `count` columns of some rows as floats
  const float* w;
  std::ptrdiff_t w_stride;
  int count;
};

template <Type kType> void convert_row(const DenseMatrix& w, int row, int column, int count, float* out) {
  constexpr int kBytes = element_bytes(kType);
  const std::ptrdiff_t pitch = row_pitch(w) * kBytes;
  const std::uint8_t* at = w.data + row * pitch + column * kBytes;
  // The same strip of the tile after next: the hardware does not guess jumps from row to row.
  for (int line = 0; line < count * kBytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + 2 * kRowTile * pitch + line), _MM_HINT_T0);
  for (int block = 0; block < count; block += kDenseScaleBlock) {
    const int end = block + kDenseScaleBlock < count ? block + kDenseScaleBlock : count;
    const __m256 scale = scale_of<kType>(w, row, column + block);
    int c = block;
    for (; c + 8 <= end; c += 8) _mm256_storeu_ps(out + c, load8<kType>(at + c * kBytes, scale));
    if (c < end) _mm256_storeu_ps(out + c, load_tail<kType>(at + c * kBytes, end - c, scale));
  }
}

// The accumulators of a block lie as [token / kTokenTile][row][token % kTokenTile], so that a tile's are together and so are
// those that are stored together. kRows x kTokens of them, from `sum` on, go on by the strip's columns.
template <int kRows, int kTokens> void tile(const Strip& strip, const float* x, std::ptrdiff_t x_stride, __m256* sum) {
  __m256 acc[kRows][kTokens];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) acc[r][t] = sum[r * kTokenTile + t];
  int c = 0;
  for (; c + 8 <= strip.count; c += 8) {
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
  if (c < strip.count) {
    const __m256i mask = tail_mask(strip.count - c);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 v = _mm256_maskload_ps(x + t * x_stride + c, mask);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        acc[r][t] = _mm256_fmadd_ps(_mm256_maskload_ps(strip.w + r * strip.w_stride + c, mask), v, acc[r][t]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) sum[r * kTokenTile + t] = acc[r][t];
}

template <int kRows> void strip_tokens(const Strip& strip, const float* x, std::ptrdiff_t x_stride, int tokens, __m256* sum) {
  for (int t = 0; t < tokens; t += kTokenTile, sum += kRowBlock * kTokenTile) {
    const float* from = x + t * x_stride;
    switch (tokens - t) {
    case 1: tile<kRows, 1>(strip, from, x_stride, sum); break;
    case 2: tile<kRows, 2>(strip, from, x_stride, sum); break;
    case 3: tile<kRows, 3>(strip, from, x_stride, sum); break;
    default: tile<kRows, kTokenTile>(strip, from, x_stride, sum); break;
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
  Strip strip{buffer, kStrip, column + kStrip < w.columns ? kStrip : w.columns - column};
  if constexpr (kType == Type::F32) {
    strip.w = reinterpret_cast<const float*>(w.data + (row * row_pitch(w) + column) * 4);
    strip.w_stride = row_pitch(w);
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) convert_row<kType>(w, row + r, column, strip.count, buffer + r * kStrip);
  }
  strip_tokens<kRows>(strip, job.x + token * job.x_stride + column, job.x_stride, tokens, sum);
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
  if (job.tokens == 1)
    product_one<kType>(job);
  else
    product_many<kType>(job);
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
        for (int r = 0; r < p.rows; ++r) convert_row<kType>(w, row + r, column, columns, buffer + r * kPanel);
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
