// Choosing positions, and the two forms of the indexer's keys.
#include "engine/model/indexer.hpp"
#include "tests/support/tiny_checkpoint.hpp"
#include "weights/e4m3.hpp"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace ductl::engine {
namespace {

using ::testing::ElementsAre;

std::vector<int> best(const std::vector<float>& scores, int count) {
  std::vector<float> scratch(scores.size());
  std::vector<int> out;
  best_positions(scores, count, scratch, out);
  return out;
}

TEST(BestPositions, AscendAndTheLowerOfEqualsWins) {
  EXPECT_THAT(best({1, 5, 3, 5, 2}, 2), ElementsAre(1, 3));
  EXPECT_THAT(best({0, 0, 7, 0, 0}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(best({-1, -3, -2}, 2), ElementsAre(0, 2));
  EXPECT_THAT(best({0.0F, -0.0F, 0.0F}, 2), ElementsAre(0, 1));
  EXPECT_THAT(best({NAN, 1, NAN, -5}, 2), ElementsAre(1, 3));
  EXPECT_THAT(best({NAN, NAN, NAN}, 2), ElementsAre(0, 1));
}

TEST(BestPositions, AreThoseOfAStableSort) {
  test::TinyRandom random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> scores(1 + random.bits() % 60);
    for (float& score : scores) score = float(int(random.bits() % 9) - 4); // many ties
    const int count = 1 + int(random.bits() % scores.size());
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[std::size_t(a)] > scores[std::size_t(b)]; });
    order.resize(std::size_t(count));
    std::sort(order.begin(), order.end());
    ASSERT_EQ(best(scores, count), order);
  }
}

TEST(IndexKeys, HadamardKeepsDotProductsAndIsItsOwnInverse) {
  test::TinyRandom random(6);
  std::vector<float> a = random.normals(128), b = random.normals(128);
  const std::vector<float> before = a;
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  hadamard(a);
  hadamard(b);
  EXPECT_NEAR(std::inner_product(a.begin(), a.end(), b.begin(), 0.0), dot, 1e-4);
  EXPECT_NE(a, before);
  hadamard(a);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], before[i], 1e-5);
  std::vector<float> unit(8, 0);
  unit[3] = 1; // a column of the Sylvester matrix
  hadamard(unit);
  const int signs[] = {1, -1, -1, 1, 1, -1, -1, 1};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(unit[i], float(signs[i]) / std::sqrt(8.0F));
}

// The nearest of all 254 finite codes under the scale; in the middle the one of even mantissa.
std::uint8_t nearest_code(float x) {
  int best_code = 0;
  for (int code = 0; code < 256; ++code) {
    if (weights::e4m3_is_nan(std::uint8_t(code)) || (code >> 7 != 0) != std::signbit(x)) continue;
    const double here = std::fabs(double(weights::e4m3_value(std::uint8_t(code))) - x);
    const double there = std::fabs(double(weights::e4m3_value(std::uint8_t(best_code))) - x);
    const bool first = (best_code >> 7 != 0) != std::signbit(x);
    if (first || here < there || (here == there && code % 2 == 0)) best_code = code;
  }
  return std::uint8_t(best_code);
}

TEST(IndexKeys, CodesAreTheNearestAndTheScaleIsTheSmallestPowerOfTwoThatHoldsAll) {
  test::TinyRandom random(7);
  std::vector<std::uint8_t> code(32);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> x = random.normals(32, std::exp2(float(int(random.bits() % 40) - 25)));
    const float scale = quantise_e4m3(x, code);
    float largest = 1e-4F;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
    EXPECT_LE(largest, 448 * scale);
    EXPECT_GT(largest, 448 * (scale / 2));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(code[i], nearest_code(x[i] / scale)) << x[i] / scale;
  }
}

TEST(IndexKeys, EveryCodeAndEveryMiddleComesBack) {
  for (int code = 0; code < 256; ++code) {
    if (weights::e4m3_is_nan(std::uint8_t(code))) continue;
    const float value = weights::e4m3_value(std::uint8_t(code));
    std::vector<float> x{448, value, 448}; // the scale is 1
    std::vector<std::uint8_t> out(3);
    if ((code & 0x7F) < 0x7E) x[2] = (value + weights::e4m3_value(std::uint8_t(code + 1))) / 2;
    ASSERT_EQ(quantise_e4m3(x, out), 1.0F);
    EXPECT_EQ(out[1], code);
    EXPECT_EQ(out[2], nearest_code(x[2]));
  }
}

} // namespace
} // namespace ductl::engine
