#include "agent/wire/block_float.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace ductl::wire {
namespace {

constexpr std::int32_t kLargest = std::numeric_limits<std::int32_t>::max(), kSmallest = std::numeric_limits<std::int32_t>::min();

struct Rounded {
  int shift = 0;
  std::vector<std::int16_t> number;
  [[nodiscard]] std::int64_t value(std::size_t i) const { return std::int64_t{number[i]} * (std::int64_t{1} << shift); }
};

Rounded rounded(const std::vector<std::int32_t>& in) {
  Rounded out{0, std::vector<std::int16_t>(in.size())};
  out.shift = to_block_float(in, out.number);
  return out;
}

std::int64_t largest(const std::vector<std::int32_t>& in) {
  std::int64_t most = 0;
  for (const std::int32_t value : in) most = std::max(most, std::abs(std::int64_t{value}));
  return most;
}

TEST(BlockFloat, WhatFits15BitsIsExact) {
  std::mt19937 random(1);
  std::vector<std::int32_t> in(kFloatBlock);
  for (std::int32_t& value : in) value = static_cast<std::int32_t>(random() % 65536) - 32768;
  in[5] = 32767, in[6] = -32768;
  const Rounded out = rounded(in);
  EXPECT_EQ(out.shift, 0);
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out.value(i), in[i]);
}

TEST(BlockFloat, ErrorIsAtMostTwoToTheMinus15OfTheLargest) {
  std::mt19937 random(2);
  for (int bits = 1; bits <= 32; ++bits) {
    for (int round = 0; round < 300; ++round) {
      std::vector<std::int32_t> in(1 + random() % kFloatBlock);
      for (std::int32_t& value : in) value = static_cast<std::int32_t>(random()) >> (32 - bits);
      if (round % 3 == 0) in[0] = static_cast<std::int32_t>((std::uint32_t{1} << (bits - 1)) - 1 - random() % 3); // saturates
      const Rounded out = rounded(in);
      ASSERT_LE(out.shift, kShiftMax);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::int64_t error = std::abs(out.value(i) - in[i]);
        ASSERT_LE(error << 15, largest(in)) << in[i] << " in a block up to " << largest(in);
        ASSERT_LE(std::abs(out.value(i)), std::int64_t{1} << 31);
      }
    }
  }
}

TEST(BlockFloat, TiesGoToEvenSoThatSumsAreNotBiased) {
  const Rounded out = rounded({1 << 17, 4, 12, -4, -12, 20, 5, 3, -5}); // shift 3
  EXPECT_EQ(out.shift, 3);
  EXPECT_EQ(out.number, (std::vector<std::int16_t>{16384, 0, 2, 0, -2, 2, 1, 0, -1}));
}

TEST(BlockFloat, TheEndsOfTheRangeStayInIt) {
  const Rounded out = rounded({kLargest, kSmallest, 0, kLargest - 32768, 32768, 32769});
  EXPECT_EQ(out.shift, 16);
  EXPECT_EQ(out.number, (std::vector<std::int16_t>{32767, -32768, 0, 32767, 0, 1}));
  EXPECT_EQ(rounded({0, 0}).number, (std::vector<std::int16_t>{0, 0}));
}

TEST(BlockFloat, IsAddedWrappingFromAnyAlignment) {
  std::mt19937 random(3);
  for (const std::size_t count : {1u, 7u, 32u, 128u}) {
    for (int shift = 0; shift <= kShiftMax; ++shift) {
      std::vector<std::int32_t> sum(count), expected(count);
      std::vector<std::byte> bytes(2 * count + 1);
      for (std::size_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::int16_t>(random());
        sum[i] = static_cast<std::int32_t>(random());
        expected[i] = static_cast<std::int32_t>(std::int64_t{sum[i]} + std::int64_t{number} * (std::int64_t{1} << shift));
        std::memcpy(bytes.data() + 1 + 2 * i, &number, 2);
      }
      add_block_float(sum, std::span<const std::byte>(bytes).subspan(1), shift);
      ASSERT_EQ(sum, expected);
    }
  }
}

TEST(BlockFloat, AGuardHoldsForWhatSumsAreRoundedTo) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<std::int32_t>(random()) >> (random() % 31);
    const Rounded out = rounded({value});
    ASSERT_GE(rounded_guard(static_cast<std::uint64_t>(std::abs(std::int64_t{value}))),
              static_cast<std::uint64_t>(std::abs(out.value(0))));
  }
}

} // namespace
} // namespace ductl::wire
