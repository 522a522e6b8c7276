#include "agent/wire/block_float.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace ductl::wire {

int to_block_float(std::span<const std::int32_t> in, std::span<std::int16_t> out) {
  assert(in.size() == out.size() && in.size() <= kFloatBlock);
  std::uint32_t magnitudes = 0; // as many bits as the largest has
  for (const std::int32_t value : in) magnitudes |= static_cast<std::uint32_t>(value ^ (value >> 31));
  const int shift = std::max(static_cast<int>(std::bit_width(magnitudes)) - 15, 0);
  const std::int32_t half = (1 << shift) >> 1, rest = (1 << shift) - 1, odd = shift > 0 ? 1 : 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int32_t down = in[i] >> shift;
    const std::int32_t up = (in[i] & rest) + (down & odd) > half ? 1 : 0; // more than half, or half and odd
    out[i] = static_cast<std::int16_t>(std::min(down + up, 32767));
  }
  return shift;
}

void add_block_float(std::span<std::int32_t> sum, std::span<const std::byte> in, int shift) {
  assert(in.size() == 2 * sum.size() && shift >= 0 && shift <= kShiftMax);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::int16_t number;
    std::memcpy(&number, in.data() + 2 * i, sizeof number);
    const std::uint32_t term = static_cast<std::uint32_t>(static_cast<std::int32_t>(number)) << shift;
    sum[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum[i]) + term);
  }
}

} // namespace ductl::wire
