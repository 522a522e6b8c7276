#include "engine/attention/index_keys.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace ductl::engine {
namespace {

constexpr float kLargest = 448;

// Nearest, ties to even; |x| <= 448. Normal numbers are rounded in the bits of the float, the others in steps of 2^-9.
std::uint8_t e4m3_code(float x) {
  const auto sign = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x) >> 24 & 0x80U);
  const float magnitude = std::min(std::fabs(x), kLargest);
  if (magnitude < 0x1p-6F) return std::uint8_t(sign | std::uint8_t(std::lrint(double(magnitude) * 512)));
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = bits + 0x7FFFFU + (bits >> 20 & 1U);
  return std::uint8_t(sign | std::uint8_t((rounded >> 20) - (120U << 3)));
}

} // namespace

void hadamard(std::span<float> x) {
  const std::size_t n = x.size();
  assert(std::has_single_bit(n));
  for (std::size_t half = 1; half < n; half *= 2) {
    for (std::size_t block = 0; block < n; block += 2 * half) {
      for (std::size_t i = block; i < block + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const auto scale = float(1 / std::sqrt(double(n)));
  for (float& value : x) value *= scale;
}

float quantise_e4m3(std::span<const float> x, std::span<std::uint8_t> code) {
  assert(x.size() == code.size());
  float largest = 1e-4F;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  int exponent = 0;
  const float fraction = std::frexp(largest / kLargest, &exponent); // in [1/2, 1)
  const float scale = std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
  for (std::size_t i = 0; i < x.size(); ++i) code[i] = e4m3_code(x[i] / scale);
  return scale;
}

} // namespace ductl::engine
