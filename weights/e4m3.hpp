// fp8 e4m3fn, as checkpoints store it: s eeee mmm, bias 7, no infinity, NaN = 0x7F and 0xFF.
#pragma once

#include "weights/fp9.hpp"

#include <array>
#include <cstdint>

namespace ductl::weights {

[[nodiscard]] constexpr bool e4m3_is_nan(std::uint8_t code) { return (code & 0x7F) == 0x7F; }

[[nodiscard]] constexpr float e4m3_value(std::uint8_t code) {
  const std::uint32_t exponent = (code >> 3) & 15u, mantissa = code & 7u;
  const std::uint32_t sign = static_cast<std::uint32_t>(code >> 7) << 31;
  if (e4m3_is_nan(code)) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120u) << 23 | mantissa << 20);
}

// The fp9 code of the same value. Exact for all 254 finite codes (their exponents fall into fp9's 6..23, so the result is
// never subnormal); NaN becomes kFp9Nan with its sign, which whoever stores weights must refuse.
[[nodiscard]] constexpr Fp9 e4m3_to_fp9(std::uint8_t code) {
  const auto sign = static_cast<Fp9>((code & 0x80) << 1);
  if (e4m3_is_nan(code)) return static_cast<Fp9>(sign | kFp9Nan);
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if (exponent != 0) return static_cast<Fp9>(sign | (exponent + 8) << 3 | mantissa);
  if (mantissa == 0) return sign;
  const int top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0; // floor(log2(mantissa)): value = mantissa * 2^-9, normalised
  return static_cast<Fp9>(sign | (top + 6) << 3 | ((mantissa << (3 - top)) & 7));
}

namespace detail {
constexpr std::array<Fp9, 256> make_e4m3_table() {
  std::array<Fp9, 256> table{};
  for (int code = 0; code < 256; ++code) table[static_cast<std::size_t>(code)] = e4m3_to_fp9(static_cast<std::uint8_t>(code));
  return table;
}
} // namespace detail
inline constexpr std::array<Fp9, 256> kE4m3ToFp9 = detail::make_e4m3_table();

} // namespace ductl::weights
