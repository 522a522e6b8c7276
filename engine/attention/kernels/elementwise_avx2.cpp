// The same operations in the same order as elementwise_scalar.cpp, eight at a time.
#include "engine/attention/kernels/elementwise.hpp"

#include <immintrin.h>

namespace ductl::engine {
namespace {

__m256i tail_mask(std::int32_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

float tree(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

__m256 exp_nonpositive8(__m256 x) {
  const __m256 lowest = _mm256_set1_ps(-87.33F), rounder = _mm256_set1_ps(12582912.0F);
  const __m256 clamped = _mm256_max_ps(lowest, x); // this order keeps NaN
  const __m256 shifted = _mm256_fmadd_ps(clamped, _mm256_set1_ps(1.44269504F), rounder);
  const __m256 n = _mm256_sub_ps(shifted, rounder);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693359375F), clamped);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(2.12194440e-4F), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4F);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1F));
  const __m256 value = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0F));
  const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127)), 23);
  const __m256 result = _mm256_mul_ps(value, _mm256_castsi256_ps(power));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), result);
}

__m256 silu_multiply8(__m256 gate, __m256 up) {
  const __m256 sign = _mm256_set1_ps(-0.0F), one = _mm256_set1_ps(1.0F);
  const __m256 e = exp_nonpositive8(_mm256_or_ps(gate, sign));
  const __m256 sigmoid = _mm256_div_ps(_mm256_blendv_ps(one, e, gate), _mm256_add_ps(one, e));
  return _mm256_mul_ps(_mm256_mul_ps(gate, sigmoid), up);
}

} // namespace

void rms_norm_avx2(const float* x, const float* weight, std::int32_t size, float eps, float* y) {
  const std::int32_t whole = size / 8 * 8;
  const __m256i mask = tail_mask(size - whole);
  __m256 lanes = _mm256_setzero_ps();
  for (std::int32_t i = 0; i < whole; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    lanes = _mm256_fmadd_ps(v, v, lanes);
  }
  if (whole != size) {
    const __m256 v = _mm256_maskload_ps(x + whole, mask);
    lanes = _mm256_fmadd_ps(v, v, lanes);
  }
  const __m128 mean = _mm_set_ss(tree(lanes) / float(size) + eps);
  const __m256 r = _mm256_set1_ps(1.0F / _mm_cvtss_f32(_mm_sqrt_ss(mean)));
  for (std::int32_t i = 0; i < whole; i += 8)
    _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), r), _mm256_loadu_ps(weight + i)));
  if (whole != size) {
    const __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + whole, mask), r);
    _mm256_maskstore_ps(y + whole, mask, _mm256_mul_ps(v, _mm256_maskload_ps(weight + whole, mask)));
  }
}

float softmax_avx2(float* x, std::int32_t size, float scale) {
  const std::int32_t whole = size / 8 * 8;
  const __m256i mask = tail_mask(size - whole);
  const __m256 factor = _mm256_set1_ps(scale), none = _mm256_set1_ps(-__builtin_inff());
  __m256 largest = none;
  for (std::int32_t i = 0; i < whole; i += 8) {
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
    _mm256_storeu_ps(x + i, v);
    largest = _mm256_max_ps(v, largest);
  }
  if (whole != size) {
    const __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + whole, mask), factor);
    _mm256_maskstore_ps(x + whole, mask, v);
    largest = _mm256_max_ps(_mm256_blendv_ps(none, v, _mm256_castsi256_ps(mask)), largest);
  }
  __m128 top = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
  top = _mm_max_ps(top, _mm_movehl_ps(top, top));
  top = _mm_max_ss(top, _mm_movehdup_ps(top));
  const __m256 maximum = _mm256_broadcastss_ps(top);
  __m256 lanes = _mm256_setzero_ps();
  for (std::int32_t i = 0; i < whole; i += 8) {
    const __m256 e = exp_nonpositive8(_mm256_sub_ps(_mm256_loadu_ps(x + i), maximum));
    _mm256_storeu_ps(x + i, e);
    lanes = _mm256_add_ps(lanes, e);
  }
  if (whole != size) {
    __m256 e = exp_nonpositive8(_mm256_sub_ps(_mm256_maskload_ps(x + whole, mask), maximum));
    e = _mm256_and_ps(e, _mm256_castsi256_ps(mask));
    _mm256_maskstore_ps(x + whole, mask, e);
    lanes = _mm256_add_ps(lanes, e);
  }
  return 1.0F / tree(lanes);
}

void silu_multiply_avx2(float* gate, const float* up, std::int32_t size) {
  const std::int32_t whole = size / 8 * 8;
  for (std::int32_t i = 0; i < whole; i += 8)
    _mm256_storeu_ps(gate + i, silu_multiply8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  if (whole == size) return;
  const __m256i mask = tail_mask(size - whole);
  const __m256 tail = silu_multiply8(_mm256_maskload_ps(gate + whole, mask), _mm256_maskload_ps(up + whole, mask));
  _mm256_maskstore_ps(gate + whole, mask, tail);
}

void add_relu_avx2(const float* x, float weight, std::int32_t size, float* sum) {
  const std::int32_t whole = size / 8 * 8;
  const __m256 w = _mm256_set1_ps(weight), zero = _mm256_setzero_ps();
  for (std::int32_t i = 0; i < whole; i += 8)
    _mm256_storeu_ps(sum + i, _mm256_fmadd_ps(w, _mm256_max_ps(_mm256_loadu_ps(x + i), zero), _mm256_loadu_ps(sum + i)));
  if (whole == size) return;
  const __m256i mask = tail_mask(size - whole);
  const __m256 tail = _mm256_max_ps(_mm256_maskload_ps(x + whole, mask), zero);
  _mm256_maskstore_ps(sum + whole, mask, _mm256_fmadd_ps(w, tail, _mm256_maskload_ps(sum + whole, mask)));
}

} // namespace ductl::engine
