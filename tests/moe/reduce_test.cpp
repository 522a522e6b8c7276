#include "engine/moe/reduce.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace ductl::engine {
namespace {

TEST(Reduce, AddsWrappingFromAnyAlignment) {
  std::mt19937 random(1);
  for (std::size_t count : {0u, 1u, 7u, 8u, 33u, 500u}) {
    for (std::size_t shift = 0; shift < 8; ++shift) {
      std::vector<std::int32_t> sum(count), expected(count);
      std::vector<std::byte> bytes(count * 4 + shift);
      for (std::size_t i = 0; i < count; ++i) {
        const auto a = static_cast<std::uint32_t>(random()), b = static_cast<std::uint32_t>(random());
        sum[i] = static_cast<std::int32_t>(a);
        expected[i] = static_cast<std::int32_t>(a + b);
        std::memcpy(bytes.data() + shift + 4 * i, &b, 4);
      }
      add_wrapping(sum, std::span<const std::byte>(bytes).subspan(shift));
      ASSERT_EQ(sum, expected);
    }
  }
}

TEST(Reduce, ToFloatRoundsOnceWhateverTheScale) {
  constexpr std::int32_t kLargest = std::numeric_limits<std::int32_t>::max(),
                         kSmallest = std::numeric_limits<std::int32_t>::min();
  const std::vector<std::int32_t> sums = {0, 1, -1, 16777217, -16777217, 33554435, kLargest, kSmallest, kLargest - 64};
  for (int exponent : {-60, -3, 0, 1, 20, 40, 120, 140}) {
    for (int rung = 0; rung < 3; ++rung) {
      std::vector<float> y(sums.size());
      const std::int16_t blocks[] = {static_cast<std::int16_t>(exponent)};
      fixed_to_float(sums, blocks, rung, y);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const long double exact = std::ldexp(static_cast<long double>(sums[i]), 8 * rung - exponent);
        EXPECT_EQ(y[i], static_cast<float>(exact)) << sums[i] << " exponent " << exponent << " rung " << rung;
      }
    }
  }
}

TEST(Reduce, EveryBlockOf128RowsHasItsOwnScale) {
  const std::vector<std::int32_t> sums(300, 3);
  const std::int16_t exponents[] = {0, 1, -2};
  std::vector<float> y(300);
  fixed_to_float(sums, exponents, 0, y);
  EXPECT_EQ(y[127], 3.0f);
  EXPECT_EQ(y[128], 1.5f);
  EXPECT_EQ(y[255], 1.5f);
  EXPECT_EQ(y[256], 12.0f);
  EXPECT_EQ(y[299], 12.0f);
}

} // namespace
} // namespace ductl::engine
