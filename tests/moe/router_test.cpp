#include "engine/moe/router.hpp"

#include "tests/support/tiny_checkpoint.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

weights::ModelConfig softmax_config(int experts, int per_token) {
  weights::ModelConfig config;
  config.family = weights::Family::Qwen3Moe;
  config.layers = 1;
  config.moe.experts = experts;
  config.moe.experts_per_token = per_token;
  return config;
}

weights::ModelConfig deepseek_config(int experts, int per_token, int groups, int kept) {
  weights::ModelConfig config = softmax_config(experts, per_token);
  config.family = weights::Family::DeepseekV3;
  config.layers = 2;
  config.moe.first_moe_layer = 1;
  config.moe.groups = groups;
  config.moe.groups_kept = kept;
  config.moe.sigmoid_scores = true;
  config.moe.scale = 2.5;
  return config;
}

std::vector<ExpertChoice> route(const weights::ModelConfig& config, const std::vector<float>& scores,
                                const std::vector<float>& bias = {}) {
  const int layer = config.layers - 1;
  std::vector<std::vector<float>> all(std::size_t(config.layers));
  all.back() = bias;
  const Router router(config, all);
  std::vector<ExpertChoice> choices(std::size_t(router.expert_choices(layer)));
  router.route(layer, scores, choices);
  return choices;
}

std::vector<int> experts(const std::vector<ExpertChoice>& choices) {
  std::vector<int> ids;
  for (const ExpertChoice& choice : choices) ids.push_back(choice.expert);
  return ids;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(SoftmaxRouter, TakesTheLargestInOrderAndDividesByTheirSum) {
  const auto choices = route(softmax_config(6, 3), {0.5F, -1, 2, 1, 0.25F, 1.5F});
  EXPECT_EQ(experts(choices), (std::vector<int>{2, 5, 3}));
  const double sum = std::exp(2.0) + std::exp(1.5) + std::exp(1.0);
  EXPECT_NEAR(choices[0].weight, std::exp(2.0) / sum, 1e-6);
  EXPECT_NEAR(choices[2].weight, std::exp(1.0) / sum, 1e-6);
}

TEST(SoftmaxRouter, WithoutNormalisingWeightsAreProbabilitiesOverAll) {
  auto config = softmax_config(3, 1);
  config.moe.normalise = false;
  const auto choices = route(config, {0, 1, -2});
  EXPECT_NEAR(choices[0].weight, std::exp(1.0) / (1 + std::exp(1.0) + std::exp(-2.0)), 1e-6);
}

TEST(SoftmaxRouter, TiesGoToTheLowerIndex) {
  EXPECT_EQ(experts(route(softmax_config(5, 3), {1, 3, 1, 3, 1})), (std::vector<int>{1, 3, 0}));
}

TEST(SoftmaxRouter, LargeScoresDoNotOverflow) {
  const auto choices = route(softmax_config(3, 2), {1e30F, 1e30F, -1e30F});
  EXPECT_EQ(choices[0].weight, 0.5F);
  EXPECT_EQ(choices[1].weight, 0.5F);
}

TEST(DeepseekRouter, WeightsComeFromUnbiasedScores) {
  // The bias lifts expert 0 above expert 1; its weight is still that of its own score. Recovered as biased score less bias it
  // would be off by hundredths (flashinfer #3875).
  const auto choices = route(deepseek_config(4, 2, 1, 1), {-1, 1, 2, -3}, {1e6F, 0, 0, 0});
  EXPECT_EQ(experts(choices), (std::vector<int>{0, 2}));
  const double sum = sigmoid(-1) + sigmoid(2);
  EXPECT_NEAR(choices[0].weight, sigmoid(-1) / sum * 2.5, 1e-6);
  EXPECT_NEAR(choices[1].weight, sigmoid(2) / sum * 2.5, 1e-6);
}

TEST(DeepseekRouter, ANegativeBiasNeverLetsAMaskedGroupIn) {
  // Every biased score is below zero; were masked groups zero, they would win.
  const auto choices = route(deepseek_config(8, 3, 4, 2), {0, 0.1F, 1, 2, 0.2F, 0.3F, 1.5F, 1}, std::vector<float>(8, -9));
  EXPECT_EQ(experts(choices), (std::vector<int>{3, 6, 2}));
}

TEST(DeepseekRouter, AGroupCountsByItsTwoBestNotByItsBest) {
  // Group 0 has the single best expert, groups 1 and 2 the better pairs.
  const auto choices = route(deepseek_config(6, 2, 3, 2), {3, -9, 1, 1, 1.2F, 0.9F}, std::vector<float>(6, 0));
  EXPECT_EQ(experts(choices), (std::vector<int>{4, 2}));
}

TEST(DeepseekRouter, EqualGroupsAndExpertsGoToTheLowerIndex) {
  EXPECT_EQ(experts(route(deepseek_config(8, 3, 4, 2), std::vector<float>(8, 0.5F), std::vector<float>(8, 0))),
            (std::vector<int>{0, 1, 2}));
}

TEST(DeepseekRouter, WithoutNormalisingOnlyTheScaleIsApplied) {
  auto config = deepseek_config(4, 1, 1, 1);
  config.moe.normalise = false;
  EXPECT_NEAR(route(config, {0, 1, 0, 0})[0].weight, sigmoid(1) * 2.5, 1e-6);
}

TEST(DeepseekRouter, VanishingScoresStillGiveFiniteWeights) {
  for (const ExpertChoice& choice : route(deepseek_config(4, 2, 1, 1), std::vector<float>(4, -1000)))
    EXPECT_EQ(choice.weight, 0.0F);
}

TEST(DeepseekRouter, TheSharedExpertComesLastWithWeightOne) {
  auto config = deepseek_config(4, 2, 1, 1);
  config.moe.shared_experts = 1;
  const auto choices = route(config, {0, 1, 2, 3});
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_EQ(choices[2].expert, 4);
  EXPECT_EQ(choices[2].weight, 1.0F);
}

TEST(DeepseekRouter, ADenseLayerIsExpertZero) {
  const Router router(deepseek_config(4, 2, 1, 1), {});
  ASSERT_EQ(router.expert_choices(0), 1);
  ExpertChoice choice[1];
  router.route(0, {}, choice);
  EXPECT_EQ(choice[0].expert, 0);
  EXPECT_EQ(choice[0].weight, 1.0F);
}

TEST(DeepseekRouter, ABiasThatIsNotANumberIsRefusedByName) {
  for (const float bad : {std::nanf(""), -INFINITY}) {
    const test::TempFolder folder;
    test::write_tiny_checkpoint({.model_type = "deepseek_v3"}, folder.path());
    test::overwrite_tensor(folder.path() / "model.safetensors", "model.layers.1.mlp.gate.e_score_correction_bias", 5 * sizeof bad,
                           std::as_bytes(std::span(&bad, 1)));
    const auto checkpoint = weights::open_checkpoint(folder.path().string());
    ASSERT_TRUE(checkpoint);
    const auto router = Router::load(**checkpoint);
    ASSERT_FALSE(router);
    EXPECT_EQ(router.error().code, ErrorCode::kWeightNotFinite);
    EXPECT_NE(router.error().message.find("layers.1.mlp.gate.e_score_correction_bias"), std::string::npos);
    EXPECT_NE(router.error().message.find("[5]"), std::string::npos);
    EXPECT_FALSE(router.error().next.empty());
  }
}

} // namespace
} // namespace ductl::engine
