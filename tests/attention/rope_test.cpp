#include "engine/model/rope.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

weights::Rope deepseek_rope() {
  weights::Rope rope;
  rope.theta = 10000;
  rope.scaling = weights::RopeScaling::Yarn;
  rope.factor = 40;
  rope.mscale = rope.mscale_all_dim = 1;
  rope.original_max_position = 4096;
  return rope;
}

TEST(Rope, PlainFrequenciesFallGeometrically) {
  weights::Rope rope;
  rope.theta = 1e6;
  const RopeTable table(rope, 128);
  ASSERT_EQ(table.pairs(), 64);
  EXPECT_EQ(table.amplitude(), 1.0F);
  for (int i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(table.inverse_frequency()[i], float(std::pow(1e6, -2.0 * i / 128)));
}

TEST(Rope, DeepseeksYarnLeavesFastWavesAndStretchesSlowOnes) {
  const RopeTable table(deepseek_rope(), 64);
  EXPECT_EQ(table.amplitude(), 1.0F) << "mscale / mscale_all_dim";
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(10000.0, -2.0 * i / 64), ramp = std::clamp((i - 10) / 13.0, 0.0, 1.0);
    EXPECT_FLOAT_EQ(table.inverse_frequency()[i], float(plain * (1 - ramp) + plain / 40 * ramp)) << i;
  }
}

TEST(Rope, YarnWithoutMscaleKeysScalesCosineAndSine) {
  weights::Rope rope = deepseek_rope();
  rope.factor = 4;
  rope.mscale = rope.mscale_all_dim = 0;
  const RopeTable table(rope, 128);
  EXPECT_FLOAT_EQ(table.amplitude(), 1.138629436F); // 0.1 ln 4 + 1
  std::vector<float> angles(128);
  table.angles(0, angles);
  EXPECT_FLOAT_EQ(angles[0], 1.138629436F);
  EXPECT_EQ(angles[64], 0.0F);
}

TEST(Rope, DeepseeksSoftmaxScaleHoldsMscaleSquared) {
  weights::ModelConfig config;
  config.mla = {1536, 512, 128, 64, 128};
  config.rope = deepseek_rope();
  EXPECT_FLOAT_EQ(attention_scale(config), 0.1352337788608801F);
  config.rope.mscale_all_dim = 0;
  EXPECT_FLOAT_EQ(attention_scale(config), float(1 / std::sqrt(192.0)));
}

TEST(Rope, TwoMscalesThatDifferScaleCosinesByTheirRatioAndTheSoftmaxByTheSecondAlone) {
  weights::ModelConfig config;
  config.mla = {1536, 512, 128, 64, 128};
  config.rope = deepseek_rope();
  config.rope.mscale_all_dim = 0.707;
  const double log = std::log(40.0), first = 0.1 * log + 1, second = 0.1 * 0.707 * log + 1;
  EXPECT_FLOAT_EQ(RopeTable(config.rope, 64).amplitude(), float(first / second));
  EXPECT_FLOAT_EQ(attention_scale(config), float(second * second / std::sqrt(192.0)));
}

TEST(Rope, QwensYarnDoesNotTouchTheSoftmax) {
  weights::ModelConfig config;
  config.head_dim = 128;
  config.rope = deepseek_rope();
  EXPECT_FLOAT_EQ(attention_scale(config), float(1 / std::sqrt(128.0)));
}

TEST(Rope, BothLayoutsTurnThePairsByTheAngle) {
  const RopeTable table(weights::Rope{}, 8);
  std::vector<float> angles(8);
  table.angles(5, angles);
  std::vector<float> half{1, 2, 3, 4, 5, 6, 7, 8}, interleaved{1, 5, 2, 6, 3, 7, 4, 8}; // the same pairs
  rotate_half_split(angles, half.data());
  rotate_interleaved(angles, interleaved.data());
  for (int i = 0; i < 4; ++i) {
    const double angle = 5 * std::pow(10000.0, -2.0 * i / 8), a = i + 1, b = i + 5;
    EXPECT_NEAR(half[i], a * std::cos(angle) - b * std::sin(angle), 1e-6);
    EXPECT_NEAR(half[i + 4], a * std::sin(angle) + b * std::cos(angle), 1e-6);
    EXPECT_EQ(half[i], interleaved[2 * i]);
    EXPECT_EQ(half[i + 4], interleaved[2 * i + 1]);
  }
}

} // namespace
} // namespace ductl::engine
