#include "engine/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <random>
#include <set>

namespace ductl::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int draw(const SamplingParams& params, std::vector<float> logits, std::uint64_t position = 0,
         const std::vector<int>& history = {}) {
  const auto used = static_cast<int>(logits.size());
  return engine::sample(params, history, position, logits, used);
}

std::vector<double> shares(const SamplingParams& params, const std::vector<float>& logits, int draws = 20'000) {
  std::vector<double> counts(logits.size());
  for (int position = 0; position < draws; ++position) {
    counts[static_cast<std::size_t>(draw(params, logits, static_cast<std::uint64_t>(position)))] += 1.0 / draws;
  }
  return counts;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) p.push_back(std::exp(logit / temperature)), sum += p.back();
  for (double& value : p) value /= sum;
  return p;
}

void expect_near(const std::vector<double>& seen, const std::vector<double>& expected) {
  // 20,000 draws: a standard deviation is at most 0.0035
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 0.015) << i;
}

TEST(Greedy, TakesTheLargestAndTheLowestIdAmongEquals) {
  EXPECT_EQ(draw({}, {1, 3, 2}), 1);
  EXPECT_EQ(draw({}, {1, 3, 3, 3}), 1);
  EXPECT_EQ(draw({}, {-kInfinity, -5}), 1);
  EXPECT_EQ(draw({}, {kNaN, 1, kNaN}), 1);
}

TEST(Sampling, PaddingRowsAreNeverTaken) {
  std::vector<float> logits = {0, 1, 100, 100};
  EXPECT_EQ(engine::sample({}, {}, 0, logits, 2), 1);
  for (std::uint64_t position = 0; position < 200; ++position) {
    std::vector<float> again = {0, 1, 100, 100};
    EXPECT_LT(engine::sample({.temperature = 1}, {}, position, again, 2), 2);
  }
}

TEST(Sampling, FollowsTheSoftmaxAtEveryTemperature) {
  const std::vector<float> logits = {0, 1, 2, -1, 1.5f};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    expect_near(shares({.temperature = temperature, .seed = 11}, logits), softmax(logits, temperature));
  }
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  const std::vector<float> logits(50, 0.0f);
  const SamplingParams params{.temperature = 1, .seed = 42};
  for (std::uint64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(draw(params, logits, position), draw(params, logits, position));
  }
  std::set<std::vector<int>> runs;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int> run;
    for (std::uint64_t position = 0; position < 20; ++position)
      run.push_back(draw({.temperature = 1, .seed = seed}, logits, position));
    runs.insert(run);
  }
  EXPECT_EQ(runs.size(), 20u);
}

// Seeds n and n + 1, positions p and p + 1: a weak mix would give one the other's numbers.
TEST(Sampling, NeighbouringSeedsShareNothing) {
  const std::vector<float> logits(1000, 0.0f);
  int equal = 0;
  for (std::uint64_t position = 0; position < 2000; ++position) {
    const int here = draw({.temperature = 1, .seed = 5}, logits, position);
    equal += here == draw({.temperature = 1, .seed = 6}, logits, position);
    equal += here == draw({.temperature = 1, .seed = 6}, logits, position + 1);
    equal += here == draw({.temperature = 1, .seed = 4}, logits, position + 1);
  }
  EXPECT_LT(equal, 30); // 6 expected
}

TEST(TopK, KeepsTheLikeliestAndTheLowestIdsAmongEquals) {
  const std::vector<float> logits = {0, 2, 1, 2, 2, -1};
  expect_near(shares({.temperature = 1, .top_k = 2, .seed = 1}, logits), {0, 0.5, 0, 0.5, 0, 0});
  for (std::uint64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(draw({.temperature = 1, .top_k = 1}, logits, position), 1);
  }
  expect_near(shares({.temperature = 1, .top_k = 100, .seed = 1}, logits), softmax(logits, 1));
}

TEST(TopP, KeepsTheShortestListThatReachesItsShare) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.1f), std::log(0.3f), std::log(0.1f)};
  expect_near(shares({.temperature = 1, .top_p = 0.75f, .seed = 2}, logits), {0.625, 0, 0.375, 0});
  expect_near(shares({.temperature = 1, .top_p = 0.85f, .seed = 2}, logits), {0.5 / 0.9, 0.1 / 0.9, 0.3 / 0.9, 0});
  for (std::uint64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(draw({.temperature = 1, .top_p = 0}, logits, position), 0);
  }
}

TEST(MinP, KeepsWhatIsLikelyEnoughBesideTheBest) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.1f), std::log(0.3f), std::log(0.1f)};
  expect_near(shares({.temperature = 1, .min_p = 0.5f, .seed = 3}, logits), {0.625, 0, 0.375, 0});
  expect_near(shares({.temperature = 1, .min_p = 1, .seed = 3}, logits), {1, 0, 0, 0});
}

// The narrowing steps against a plain sort, for sizes where the heap matters.
TEST(TopP, AgreesWithASortOnRandomLogits) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits(500);
    for (float& logit : logits) logit = normal(random);
    const std::vector<double> p = softmax(logits, 1);
    std::vector<std::size_t> order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
    std::set<int> allowed;
    double sum = 0;
    for (std::size_t i = 0; i < order.size() && sum < 0.9 + 1e-9; ++i)
      sum += p[order[i]], allowed.insert(static_cast<int>(order[i]));
    for (std::uint64_t position = 0; position < 100; ++position) {
      EXPECT_TRUE(allowed.contains(draw({.temperature = 1, .top_p = 0.9f}, logits, position)));
    }
  }
}

TEST(RepetitionPenalty, CountsEachTokenOnceAndPushesBothSignsDown) {
  std::vector<float> logits = {2, -2, 1, 0};
  const std::vector<int> history = {0, 1, 0, 0, 99, -1};
  EXPECT_EQ(engine::sample({.repetition_penalty = 4}, history, 0, logits, 4), 2);
  EXPECT_THAT(logits, testing::ElementsAre(0.5f, -8, 1, 0));
}

TEST(Sampling, ExtremeLogitsEndInAToken) {
  for (const float temperature : {1e-30f, 0.01f, 10.0f}) {
    EXPECT_EQ(draw({.temperature = temperature}, {-3e38f, 3e38f, 0}), 1);
    EXPECT_EQ(draw({.temperature = temperature}, {0, kInfinity, 0}), 1);
    EXPECT_EQ(draw({.temperature = temperature}, {kNaN, -kInfinity, 4}), 2);
    EXPECT_EQ(draw({.temperature = temperature}, {kNaN, -kInfinity}), 0); // nothing to choose from
  }
}

TEST(Check, NamesTheFieldThatIsWrong) {
  const auto field = [](const SamplingParams& params) {
    const auto result = check(params);
    EXPECT_TRUE(result || result.error().code == ErrorCode::kRequestValue);
    return result ? std::string() : result.error().place;
  };
  EXPECT_EQ(field({}), "");
  EXPECT_EQ(field({.temperature = 10, .top_k = 5, .top_p = 0, .min_p = 1, .repetition_penalty = 10}), "");
  for (const float wrong : {kNaN, kInfinity, -kInfinity, -0.1f, 1e30f}) {
    EXPECT_EQ(field({.temperature = wrong}), "temperature");
    EXPECT_EQ(field({.top_p = wrong}), "top_p");
    EXPECT_EQ(field({.min_p = wrong}), "min_p");
    EXPECT_EQ(field({.repetition_penalty = wrong}), "repetition_penalty");
  }
  EXPECT_EQ(field({.repetition_penalty = 0}), "repetition_penalty");
  EXPECT_EQ(field({.top_k = -1}), "top_k");
  EXPECT_EQ(field({.top_k = std::numeric_limits<int>::max()}), "top_k");
}

} // namespace
} // namespace ductl::engine
