#include "engine/moe/reduce.hpp"

#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace ductl::engine {

void add_wrapping(std::span<std::int32_t> sum, std::span<const std::byte> bytes) {
  assert(bytes.size() == sum.size_bytes());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::uint32_t term; // unsigned: signed overflow is undefined, and wrapping is what is wanted
    std::memcpy(&term, bytes.data() + 4 * i, sizeof term);
    sum[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum[i]) + term);
  }
}

void fixed_to_float(std::span<const std::int32_t> sum, std::span<const std::int16_t> exponent, int rung, std::span<float> y) {
  constexpr auto kBlock = static_cast<std::size_t>(weights::kScaleBlock);
  assert(sum.size() == y.size() && exponent.size() == (sum.size() + kBlock - 1) / kBlock);
  for (std::size_t block = 0; block < exponent.size(); ++block) {
    const double scale = std::ldexp(1.0, 8 * rung - exponent[block]);
    const std::size_t end = std::min(sum.size(), (block + 1) * kBlock);
    for (std::size_t i = block * kBlock; i < end; ++i) y[i] = static_cast<float>(sum[i] * scale);
  }
}

} // namespace ductl::engine
