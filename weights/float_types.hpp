// bf16 and IEEE half <-> float, bit patterns as std::uint16_t. Narrowing rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace ductl::weights {

[[nodiscard]] constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// NaN stays NaN (made quiet); overflow rounds to infinity, as the format says.
[[nodiscard]] constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Finite values only; branch-free so that loops over it vectorise.
[[nodiscard]] constexpr float f16_to_float_finite(std::uint16_t bits) {
  const float magnitude = std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x7FFF) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | static_cast<std::uint32_t>(bits & 0x8000) << 16);
}

[[nodiscard]] constexpr float f16_to_float(std::uint16_t bits) {
  if ((bits & 0x7C00) != 0x7C00) return f16_to_float_finite(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x8000) << 16 | 0x7F800000u |
                              static_cast<std::uint32_t>(bits & 0x03FF) << 13);
}

[[nodiscard]] std::uint16_t float_to_f16(float value);

} // namespace ductl::weights
