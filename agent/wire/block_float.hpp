// Sums as 16-bit block float, the compact form of a reply: int16 numbers with one power of two for each block. Pure; compiled
// with -O3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ductl::wire {

inline constexpr std::size_t kFloatBlock = 128; // numbers that share a shift; the last block of a row may be short
inline constexpr int kShiftMax = 16;

[[nodiscard]] constexpr std::size_t float_blocks(std::size_t count) { return (count + kFloatBlock - 1) / kFloatBlock; }

// out[i] = in[i] / 2^shift to nearest, ties to even, with the smallest shift (0..16, returned) at which all of them fit.
// |out[i] * 2^shift - in[i]| <= 2^-15 of the block's largest magnitude; 0 where that is below 2^15. At most one block.
[[nodiscard]] int to_block_float(std::span<const std::int32_t> in, std::span<std::int16_t> out);
// sum[i] += in[i] * 2^shift, wrapping; `in` little-endian, of any alignment, 2 * sum.size() bytes.
void add_block_float(std::span<std::int32_t> sum, std::span<const std::byte> in, int shift);
// A bound of the numbers' magnitudes, widened to hold for what they are rounded to.
[[nodiscard]] constexpr std::uint64_t rounded_guard(std::uint64_t guard) { return guard + (guard >> 15) + 1; }

} // namespace ductl::wire
