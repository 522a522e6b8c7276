// The arithmetic of a round's end: integer sums of replies, and integers back to floats. Pure; compiled with -O3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ductl::engine {

// sum[i] += the i-th little-endian int32 of `bytes`, wrapping. bytes.size() == 4 * sum.size(); any alignment.
void add_wrapping(std::span<std::int32_t> sum, std::span<const std::byte> bytes);

// y[i] = sum[i] * 2^-(exponent[i / 128] - 8 * rung): exact in double, rounded once to float.
void fixed_to_float(std::span<const std::int32_t> sum, std::span<const std::int16_t> exponent, int rung, std::span<float> y);

} // namespace ductl::engine
