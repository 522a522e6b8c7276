// A whole layer: packed experts, exponents from their norms, every slice through the kernels. How near is the sum to the
// truth, how far is the guard from its limit, and do the bits depend on who computed what?
#include "tests/kernels/job.hpp"
#include "tests/weights/matrices.hpp"
#include "weights/fixed_point.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace ductl::agent {
namespace {

struct LayerShape {
  const char* name;
  int hidden, channels, experts_per_token, shared;
  double routed_weight;
};

// The experts that one token meets, with weights 1 / k times routed_weight (and 1 for the shared one).
class Layer {
public:
  Layer(const LayerShape& shape, unsigned seed) : shape_(shape), random_(seed) {
    layout_ = weights::slice_layout(shape.hidden);
    const int experts = shape.experts_per_token + shape.shared;
    const int slices_each = shape.channels / weights::kSliceChannels;
    slices_ = test::aligned<std::byte>(static_cast<std::size_t>(experts * slices_each) * layout_.bytes);
    std::vector<weights::ExpertNorms> norms(static_cast<std::size_t>(experts));
    for (int e = 0; e < experts; ++e) {
      const auto expert = weights::test::random_expert(weights::DType::Bf16, shape.hidden, shape.channels, random_);
      const auto prepared = weights::prepare_expert(expert.weights());
      weights::SliceNorms slice_norm;
      for (int index = 0; index < slices_each; ++index) {
        std::byte* slice = slice_at(count_++);
        EXPECT_TRUE(weights::pack_slice(*prepared, index, {slice, layout_.bytes}));
        weights::slice_norms(slice, shape.hidden, slice_norm);
        norms[static_cast<std::size_t>(e)].add(slice_norm);
        weight_.push_back(e < shape.experts_per_token ? static_cast<float>(shape.routed_weight / shape.experts_per_token) : 1.0f);
      }
    }
    const auto rms = weights::expected_rms(shape.hidden, norms, shape.shared != 0 ? shape.experts_per_token : -1,
                                           {1.0, shape.experts_per_token, shape.routed_weight});
    for (const double value : rms) exponent_.push_back(weights::fixed_exponent(value, count_));
    std::normal_distribution<float> gauss(0, 1);
    x_.resize(static_cast<std::size_t>(shape.hidden));
    for (float& value : x_) value = gauss(random_);
  }

  // Adds the given slices to y and the guard.
  void run(std::span<const int> which, int rung, std::vector<std::int32_t>& y, std::uint64_t& guard) const {
    std::vector<float> scale;
    for (const int exponent : exponent_) scale.push_back(weights::fixed_scale(exponent, rung));
    const auto scratch = test::aligned<float>(kernel_scratch_floats(1));
    const float* x = x_.data();
    std::int32_t* sums = y.data();
    for (const int i : which) {
      const std::byte* slice = slice_at(i);
      const float factor = slice_guard_factor(slice, shape_.hidden, weights::TileFormat::NineBit, scale.data());
      select_kernels().value()->forward({.slices = &slice,
                                         .hidden = shape_.hidden,
                                         .tokens = 1,
                                         .x = &x,
                                         .weight = &weight_[static_cast<std::size_t>(i)],
                                         .fixed_scale = scale.data(),
                                         .guard_factor = &factor,
                                         .y = &sums,
                                         .guard = &guard,
                                         .scratch = scratch.get()});
    }
  }

  [[nodiscard]] std::vector<double> truth() const {
    std::vector<double> y(x_.size(), 0.0);
    for (int i = 0; i < count_; ++i) {
      const std::byte* slice = slice_at(i);
      double h[16];
      for (int c = 0; c < 16; ++c) {
        double gate = 0, up = 0;
        for (int k = 0; k < shape_.hidden; ++k) {
          gate += panel(slice, c, k, layout_.gate_scale) * double{x_[static_cast<std::size_t>(k)]};
          up += panel(slice, 16 + c, k, layout_.up_scale) * double{x_[static_cast<std::size_t>(k)]};
        }
        h[c] = gate / (1 + std::exp(-gate)) * up * double{weight_[static_cast<std::size_t>(i)]};
      }
      for (int row = 0; row < shape_.hidden; ++row)
        for (int c = 0; c < 16; ++c) {
          const std::byte* tile = slice + layout_.down_tile(row / 32);
          y[static_cast<std::size_t>(row)] +=
              weights::fp9_value(weights::tile_code(tile, row % 32, c)) * scale_at(slice, layout_.down_scale, row / 128) * h[c];
        }
    }
    return y;
  }

  [[nodiscard]] int slices() const { return count_; }
  [[nodiscard]] int exponent(int row) const { return exponent_[static_cast<std::size_t>(row / 128)]; }
  std::vector<float> x_;

private:
  [[nodiscard]] std::byte* slice_at(int i) const { return slices_.get() + static_cast<std::size_t>(i) * layout_.bytes; }
  static double scale_at(const std::byte* slice, std::size_t offset, int block) {
    float value;
    std::memcpy(&value, slice + offset + 4 * static_cast<std::size_t>(block), 4);
    return value;
  }
  [[nodiscard]] double panel(const std::byte* slice, int row, int column, std::size_t scale) const {
    const std::byte* tile = slice + layout_.panel_tile(column / 16);
    return weights::fp9_value(weights::tile_code(tile, row, column % 16)) * scale_at(slice, scale, column / 128);
  }

  LayerShape shape_;
  std::mt19937 random_;
  weights::SliceLayout layout_;
  test::Aligned<std::byte> slices_;
  int count_ = 0;
  std::vector<float> weight_;
  std::vector<std::int16_t> exponent_;
};

const LayerShape kShapes[] = {
    {"a tiny dense model", 64, 48, 1, 0, 1.0},
    {"SmolLM2-135M", 576, 1536, 1, 0, 1.0},
    {"Qwen3-30B-A3B, a smaller hidden", 192, 768, 8, 0, 1.0},
    {"DeepSeek-V3, a smaller hidden", 160, 2048, 8, 1, 2.5},
};

TEST(Layer, the_whole_sum_is_within_1e_5_and_the_guard_far_from_its_limit) {
  for (const LayerShape& shape : kShapes) {
    const Layer layer(shape, 5);
    std::vector<int> all(static_cast<std::size_t>(layer.slices()));
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::int32_t> y(static_cast<std::size_t>(shape.hidden), 0);
    std::uint64_t guard = 0;
    layer.run(all, 0, y, guard);
    const std::vector<double> truth = layer.truth();
    double error = 0, norm = 0;
    for (int row = 0; row < shape.hidden; ++row) {
      const double value = y[static_cast<std::size_t>(row)] * double{weights::fixed_step(layer.exponent(row), 0)};
      error += std::pow(value - truth[static_cast<std::size_t>(row)], 2);
      norm += std::pow(truth[static_cast<std::size_t>(row)], 2);
    }
    RecordProperty(std::string("error of ") + shape.name, std::to_string(std::sqrt(error / norm)));
    EXPECT_LT(std::sqrt(error / norm), 1e-5) << shape.name;
    EXPECT_LT(static_cast<double>(guard), static_cast<double>(weights::kGuardLimit) / 2) << shape.name;
    if (std::getenv("DUCTL_SHOW") != nullptr)
      std::printf("%-32s %4d slices: relative error %.2g, guard 1/%.1f of its limit\n", shape.name, layer.slices(),
                  std::sqrt(error / norm), static_cast<double>(weights::kGuardLimit) / static_cast<double>(guard));
  }
}

TEST(Layer, sums_and_guard_have_the_same_bits_however_slices_are_dealt) {
  const Layer layer(kShapes[2], 6);
  std::vector<int> order(static_cast<std::size_t>(layer.slices()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int32_t> expected(192, 0);
  std::uint64_t expected_guard = 0;
  layer.run(order, 0, expected, expected_guard);
  std::mt19937 random(7);
  for (const std::size_t ducks : {1u, 2u, 3u, 5u, 8u, 31u, 32u, 48u}) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::int32_t> total(192, 0);
    std::uint64_t guard = 0;
    for (std::size_t duck = 0; duck < ducks; ++duck) {
      const std::size_t begin = order.size() * duck / ducks, end = order.size() * (duck + 1) / ducks;
      std::vector<std::int32_t> part(192, 0);
      std::uint64_t part_guard = 0;
      layer.run(std::span(order).subspan(begin, end - begin), 0, part, part_guard);
      for (std::size_t i = 0; i < total.size(); ++i)
        total[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total[i]) + static_cast<std::uint32_t>(part[i]));
      guard = weights::add_guards(guard, part_guard);
    }
    EXPECT_EQ(total, expected) << ducks;
    EXPECT_EQ(guard, expected_guard) << ducks;
  }
}

// An activation 2,000 times beyond the range: rung 0 must say so, and a higher rung carry it.
TEST(Layer, an_activation_far_beyond_the_range_is_told_by_the_guard_and_carried_by_a_higher_rung) {
  Layer layer(kShapes[1], 8);
  std::vector<int> all(static_cast<std::size_t>(layer.slices()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::int32_t> y(576, 0);
  std::uint64_t guard = 0;
  layer.run(all, 0, y, guard);
  // y grows with the square of x once silu is past its bend; find the token whose guard is 2,000 times the limit.
  const double wanted = 2000.0 * static_cast<double>(weights::kGuardLimit);
  const auto stretch = static_cast<float>(std::sqrt(wanted / static_cast<double>(guard)));
  for (float& value : layer.x_) value *= stretch;
  const std::vector<double> truth = layer.truth();
  int rung = 0;
  for (; rung < weights::kRungs; ++rung) {
    std::fill(y.begin(), y.end(), 0);
    guard = 0;
    layer.run(all, rung, y, guard);
    if (guard < weights::kGuardLimit) break;
    EXPECT_LT(rung, 2) << "the last rung carries it";
  }
  EXPECT_GE(rung, 1);
  ASSERT_LT(rung, weights::kRungs);
  double error = 0, norm = 0;
  for (int row = 0; row < 576; ++row) {
    const double value = y[static_cast<std::size_t>(row)] * double{weights::fixed_step(layer.exponent(row), rung)};
    error += std::pow(value - truth[static_cast<std::size_t>(row)], 2);
    norm += std::pow(truth[static_cast<std::size_t>(row)], 2);
  }
  EXPECT_LT(std::sqrt(error / norm), 1e-4);
}

} // namespace
} // namespace ductl::agent
