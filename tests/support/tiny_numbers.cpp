// Number formats and random numbers of tiny_checkpoint.hpp, written for clarity: these are a test's own truth.
#include "tests/support/tiny_checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace ductl::test {

std::uint64_t TinyRandom::bits() { // splitmix64
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double TinyRandom::uniform() { return (double(bits() >> 11) + 0.5) * 0x1p-53; }

float TinyRandom::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return float(radius * std::cos(2 * std::numbers::pi * uniform()));
}

std::vector<float> TinyRandom::normals(std::size_t count, float scale, float mean) {
  std::vector<float> values(count);
  for (float& value : values) value = mean + scale * normal();
  return values;
}

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

std::uint16_t f16_of(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520) return std::uint16_t(sign | 0x7c00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step_exponent = std::max(exponent - 11, -24); // of the last place
  const auto steps = unsigned(std::lrint(std::ldexp(double(magnitude), -step_exponent)));
  // Steps beyond 10 bits carry into the exponent by themselves.
  const unsigned biased = steps < 1024 ? 0 : unsigned(step_exponent + 24);
  return std::uint16_t(sign | ((biased << 10) + steps));
}

float e4m3_value(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return float((code & 0x80) != 0 ? -magnitude : magnitude);
}

std::uint8_t e4m3_of(float value) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 0x7f; ++code)
    if (std::fabs(e4m3_value(code) - std::fabs(value)) < std::fabs(e4m3_value(best) - std::fabs(value))) best = code;
  return std::uint8_t(best | (std::signbit(value) ? 0x80 : 0));
}

} // namespace ductl::test
