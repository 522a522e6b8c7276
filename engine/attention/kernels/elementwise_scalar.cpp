#include "engine/attention/kernels/elementwise.hpp"

#include <bit>
#include <cmath>

namespace ductl::engine {
namespace {

float tree(const float* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

float sigmoid(float x) {
  const float e = exp_nonpositive(-std::fabs(x));
  return (std::signbit(x) ? e : 1.0F) / (1.0F + e);
}

} // namespace

// x = n ln 2 + r, |r| <= ln 2 / 2; e^r by the polynomial of Cephes' expf; ln 2 in two parts, the first of few bits.
float exp_nonpositive(float x) {
  constexpr float kLowest = -87.33F, kRounder = 12582912.0F; // 1.5 * 2^23
  const float clamped = kLowest > x ? kLowest : x;
  const float shifted = std::fma(clamped, 1.44269504F, kRounder);
  const float n = shifted - kRounder;
  float r = std::fma(n, -0.693359375F, clamped);
  r = std::fma(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  const float value = std::fma(p, r * r, r) + 1.0F;
  // The rounder's low bits hold n; n >= -126, so the power of two is a normal number.
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23);
  return x < kLowest ? 0.0F : value * power;
}

void rms_norm_scalar(const float* x, const float* weight, std::int32_t size, float eps, float* y) {
  float lane[8] = {};
  for (std::int32_t i = 0; i < size; ++i) lane[i % 8] = std::fma(x[i], x[i], lane[i % 8]);
  const float r = 1.0F / std::sqrt(tree(lane) / float(size) + eps);
  for (std::int32_t i = 0; i < size; ++i) y[i] = (x[i] * r) * weight[i];
}

float softmax_scalar(float* x, std::int32_t size, float scale) {
  float largest = -INFINITY;
  for (std::int32_t i = 0; i < size; ++i) {
    x[i] *= scale;
    largest = x[i] > largest ? x[i] : largest;
  }
  float lane[8] = {};
  for (std::int32_t i = 0; i < size; ++i) {
    x[i] = exp_nonpositive(x[i] - largest);
    lane[i % 8] += x[i];
  }
  return 1.0F / tree(lane);
}

void silu_multiply_scalar(float* gate, const float* up, std::int32_t size) {
  for (std::int32_t i = 0; i < size; ++i) gate[i] = (gate[i] * sigmoid(gate[i])) * up[i];
}

void add_relu_scalar(const float* x, float weight, std::int32_t size, float* sum) {
  for (std::int32_t i = 0; i < size; ++i) sum[i] = std::fma(weight, x[i] > 0 ? x[i] : 0.0F, sum[i]); // as maxps: NaN becomes 0
}

} // namespace ductl::engine
