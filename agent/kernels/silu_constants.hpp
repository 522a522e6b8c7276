// exp(z) for SiLU, as numbers: the scalar and the AVX2 kernels compute the same operations with them, so their bits agree
// (libm's expf is chosen by CPU at load time and may differ between ducks). Method: docs/slices.md, "SiLU".
#pragma once

namespace ductl::agent::silu {

inline constexpr float kLowest = -87.0f, kHighest = 88.0f; // of z; exp stays a normal float
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kRounder = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer, nearest even
inline constexpr float kMinusLn2High = -0.693359375f, kMinusLn2Low = 2.12194440e-4f;
// exp(r) = 1 + (r + r^2 * polynomial), |r| <= ln(2) / 2
inline constexpr float kP0 = 1.9875691500e-4f, kP1 = 1.3981999507e-3f, kP2 = 8.3334519073e-3f, kP3 = 4.1665795894e-2f,
                       kP4 = 1.6666665459e-1f, kP5 = 5.0000001201e-1f;

} // namespace ductl::agent::silu
