// fp9: the number format of stored weights. Nine bits, s eeeee mmm, bias 15: the top nine bits of an IEEE half.
//
//   code bit 8 = sign, bits 7..3 = exponent, bits 2..0 = mantissa; exponent 0 is subnormal, exponent 31 infinity or NaN.
//   Every finite e4m3 value is an fp9 value (e4m3.hpp). These functions are the scalar truth that kernels are tested against.
#pragma once

#include <bit>
#include <cstdint>

namespace ductl::weights {

using Fp9 = std::uint16_t; // nine bits used

inline constexpr int kFp9Codes = 512;
inline constexpr Fp9 kFp9Sign = 0x100;
inline constexpr Fp9 kFp9Infinity = 0x0F8; // exponent 31, mantissa 0
inline constexpr Fp9 kFp9Nan = 0x0FC;      // quiet

[[nodiscard]] constexpr bool fp9_finite(Fp9 code) { return (code & kFp9Infinity) != kFp9Infinity; }

// The value of a code, exactly. Infinity and NaN come out as such.
[[nodiscard]] constexpr float fp9_value(Fp9 code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & kFp9Sign) << 23;
  const std::uint32_t exponent = (code >> 3) & 31u, mantissa = code & 7u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-17f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t biased = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | biased << 23 | mantissa << 20);
}

// Round to nearest, ties to even. Branch-free in effect, so that loops over it vectorise. |value| must be less than
// 63488 (2^15 * 1.9375, where the finite codes end); the packer's scales keep it at or below 512.
[[nodiscard]] constexpr Fp9 fp9_round_finite(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t normal = ((magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20) - (112u << 3);
  // Below 2^-14 the unit is 2^-17: adding 64 = 2^23 * 2^-17 leaves the rounded count of units in the low bits.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 64.0f) - 0x42800000u;
  const std::uint32_t code = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<Fp9>(code | ((bits >> 23) & kFp9Sign));
}

// The same for every float: overflow gives infinity, NaN stays NaN.
[[nodiscard]] Fp9 fp9_round(float value);

} // namespace ductl::weights
