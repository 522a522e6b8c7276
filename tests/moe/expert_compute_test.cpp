#include "agent/expert_compute.hpp"
#include "tests/moe/support/tiny_model.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace ductl::testing {
namespace {

std::vector<std::byte> encode(const TinyRequest& r, const TinyModel& model, bool bf16) {
  wire::RequestShape shape{.tokens = r.request.tokens, .hidden = model.hidden, .choices = 0, .bf16 = bf16};
  for (const auto& choices : r.choices) shape.choices += static_cast<int>(choices.size());
  std::vector<std::byte> message(wire::request_bytes(shape));
  wire::RequestWriter writer(message, shape);
  for (int t = 0; t < r.request.tokens; ++t) {
    writer.token(r.request.x.subspan(static_cast<std::size_t>(t * model.hidden), static_cast<std::size_t>(model.hidden)),
                 static_cast<int>(r.choices[t].size()));
    for (const auto& c : r.choices[t]) writer.choice(c.expert, c.weight);
  }
  return message;
}

class ExpertComputeTest : public ::testing::Test {
protected:
  ExpertComputeTest() {
    for (const agent::ActiveLayer& layer : store_.active()->layers) compute_.reserve(model_.hidden, layer);
  }

  // The duck's sums as floats, at a rung.
  std::vector<float> run(const TinyRequest& r, int rung) {
    const auto message = encode(r, model_, false);
    const auto view = wire::RequestView::parse(message);
    const auto index = store_.active();
    const agent::ActiveLayer& layer = index->layers[r.request.layer];
    EXPECT_TRUE(compute_.gather(*view, layer));
    wire::ReplyBuffer reply(wire::kTokensMax, model_.hidden);
    reply.clear(r.request.tokens);
    slices_ = compute_.run(*view, *index, r.request.layer, rung, reply, &Clock::now, [](Instant) { return true; });
    reply.finish(1, static_cast<std::uint32_t>(slices_));
    std::vector<float> y(r.x.size());
    for (int t = 0; t < r.request.tokens; ++t) {
      for (int i = 0; i < model_.hidden; ++i) {
        y[static_cast<std::size_t>(t * model_.hidden + i)] =
            std::ldexp(static_cast<float>(reply.sums(t)[i]), 8 * rung - model_.exponent);
      }
      guards_.push_back(wire::load<std::uint64_t>(reply.message(), wire::kReplyHeadBytes + 8u * t));
    }
    return y;
  }

  TinyModel model_{.layers = 2, .hidden = 160, .experts = 5, .slices = 3};
  TinyStore store_{model_, 0, 1, 1};
  agent::ExpertCompute compute_{tiny_kernels(), wire::kTokensMax};
  std::mt19937_64 random_{1};
  int slices_ = 0;
  std::vector<std::uint64_t> guards_;
};

TEST_F(ExpertComputeTest, GathersEachExpertsTokens) {
  for (int tokens : {1, 2, 7, 64}) {
    const TinyRequest r = random_request(model_, 1, 0, tokens, random_);
    EXPECT_EQ(run(r, 0), expected_sum(model_, r.request)) << tokens;
  }
}

TEST_F(ExpertComputeTest, OnlyChosenExpertsAreComputed) {
  TinyRequest r = random_request(model_, 0, 0, 2, random_);
  for (auto& choices : r.choices) choices.resize(1), choices[0].expert = 2;
  run(r, 0);
  EXPECT_EQ(slices_, model_.slices);
}

TEST_F(ExpertComputeTest, HigherRungsScaleSumAndGuard) {
  const TinyRequest r = random_request(model_, 0, 0, 1, random_);
  const auto y0 = run(r, 0), y1 = run(r, 1);
  EXPECT_NEAR(static_cast<double>(guards_[0]) / 256, static_cast<double>(guards_[1]), 2.0 * model_.slices * 2);
  for (std::size_t i = 0; i < y0.size(); ++i) EXPECT_NEAR(y0[i], y1[i], std::ldexp(1.0, 8 - model_.exponent) * model_.slices * 2);
}

TEST_F(ExpertComputeTest, NotFiniteGuardsDoNotWrapToNothing) {
  TinyRequest r = random_request(model_, 0, 0, 2, random_); // 2 experts of 3 slices: 6 * 2^62 is 2 * 2^62 in 64 bits
  r.x[3] = std::numeric_limits<float>::quiet_NaN();
  run(r, 0);
  EXPECT_EQ(guards_[0], wire::kGuardMax);
  EXPECT_LT(guards_[1], wire::kGuardLimit);
}

TEST_F(ExpertComputeTest, RefusesExpertsThatTheLayerHasNotAndTheSameOneTwice) {
  TinyRequest r = random_request(model_, 0, 0, 2, random_);
  r.choices[1][0].expert = 5;
  EXPECT_FALSE(compute_.gather(*wire::RequestView::parse(encode(r, model_, false)), store_.active()->layers[0]));
  r.choices[1][0].expert = r.choices[1][1].expert;
  EXPECT_FALSE(compute_.gather(*wire::RequestView::parse(encode(r, model_, false)), store_.active()->layers[0]));
}

TEST_F(ExpertComputeTest, StopsWhenItsWorkIsNoLongerWanted) {
  const TinyRequest r = random_request(model_, 0, 0, 1, random_);
  const auto message = encode(r, model_, false);
  const auto view = wire::RequestView::parse(message);
  const auto index = store_.active();
  ASSERT_TRUE(compute_.gather(*view, index->layers[0]));
  wire::ReplyBuffer reply(1, model_.hidden);
  reply.clear(1);
  static Instant time;
  time = Instant{};
  const auto ticking = [] { return time += agent::ExpertCompute::kBetween; };
  int asked = 0;
  EXPECT_EQ(compute_.run(*view, *index, 0, 0, reply, ticking, [&](Instant) { return ++asked < 2; }), -1); // asked once an expert
  EXPECT_EQ(asked, 2);
}

} // namespace
} // namespace ductl::testing
