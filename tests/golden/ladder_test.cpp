// The fixed-point ladder over real ducks: one token far beyond the range among ordinary ones.
#include "tests/golden/golden_case.hpp"

#include "engine/moe/host_ffn.hpp"
#include "tests/support/in_process_flock.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace ductl::test {
namespace {

constexpr int kTokens = 3, kLayer = 1, kLargeToken = 1;

class Ladder : public ::testing::Test {
protected:
  // Every token's hidden state is ordinary but that of kLargeToken, which is `factor` times as large.
  Expected<std::vector<float>> run(engine::Ffn& ffn, float factor) {
    const int hidden = golden_.checkpoint->config().hidden;
    std::vector<float> x = TinyRandom(7).normals(static_cast<std::size_t>(kTokens * hidden));
    for (int i = 0; i < hidden; ++i) x[static_cast<std::size_t>(kLargeToken * hidden + i)] *= factor;
    const std::vector<engine::ExpertChoice> choice{{3, 0.5f}, {0, 0.3f}, {9, 0.2f}};
    const std::vector<std::span<const engine::ExpertChoice>> experts(kTokens, choice);
    engine::FfnRequest request;
    request.layer = kLayer;
    request.tokens = kTokens;
    request.x = x;
    request.experts = experts;
    if (auto started = ffn.start(request); !started) return tl::unexpected<Error>(started.error());
    std::vector<float> y(x.size());
    auto times = ffn.finish(0, y);
    if (!times) return tl::unexpected<Error>(times.error());
    return y;
  }

  std::vector<float> token(const std::vector<float>& y, int number) const {
    const int hidden = golden_.checkpoint->config().hidden;
    return {y.begin() + number * hidden, y.begin() + (number + 1) * hidden};
  }

  // The large token's sum against the same in float, relative L2.
  double deviation(const std::vector<float>& ours, const std::vector<float>& host) const {
    double difference = 0, magnitude = 0;
    const auto a = token(ours, kLargeToken), b = token(host, kLargeToken);
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      magnitude += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / magnitude);
  }

  GoldenCase golden_ = load_golden_case("qwen3_moe");
};

// y grows with the square of x (gate times up): 2,000 times the range needs x to be about 45 times larger still.
TEST_F(Ladder, ATokenTwoThousandTimesBeyondTheRangeIsRepeatedAndRight) {
  auto host = engine::make_host_ffn(*golden_.checkpoint, 1);
  ASSERT_TRUE(host);
  InProcessFlock flock(*golden_.checkpoint, {.ducks = 3});
  const auto ordinary = run(flock.ffn(), 1);
  ASSERT_TRUE(ordinary) << ordinary.error().text();
  ASSERT_EQ(flock.ffn().stats().repeats, 0u);

  float factor = 1; // the first power of two that leaves rung 0
  while (flock.ffn().stats().repeats == 0) {
    factor *= 2;
    ASSERT_LT(factor, 1e6f);
    ASSERT_TRUE(run(flock.ffn(), factor));
  }
  factor *= std::sqrt(2000.0f);
  const auto large = run(flock.ffn(), factor);
  ASSERT_TRUE(large) << large.error().text();
  const auto exact = run(**host, factor);
  ASSERT_TRUE(exact);
  EXPECT_LE(deviation(*large, *exact), 1e-4);
  EXPECT_GE(flock.ffn().stats().repeats, 2u);
  // The ordinary tokens of the same round keep their bits.
  for (const int number : {0, 2}) EXPECT_EQ(token(*large, number), token(*ordinary, number));
}

TEST_F(Ladder, BeyondTheLastRungTheRoundFailsByName) {
  InProcessFlock flock(*golden_.checkpoint, {.ducks = 2});
  const auto result = run(flock.ffn(), 1e15f);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kSumOverflow);
  EXPECT_TRUE(run(flock.ffn(), 1)) << "the flock goes on";
}

} // namespace
} // namespace ductl::test
