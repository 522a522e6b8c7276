// Kernels: scalar against the definition in double, AVX2 against scalar bit for bit.
#include "inventory/cpu_features.hpp"
#include "tests/kernels/job.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace ductl::agent {
namespace {

using test::Job;
using weights::Fp9;
using weights::kScaleBlock;
using weights::kTileBytes;

#define NEEDS_AVX2()                                                                                                             \
  if (!cpu_has_avx2()) GTEST_SKIP() << "this CPU lacks AVX2, FMA or F16C"

// The whole slice in double, from tile_code() and fp9_value() alone; y in units of the fixed point, before rounding.
std::vector<double> reference(const Job& job, int token) {
  const weights::SliceLayout layout = weights::slice_layout(job.hidden_);
  const std::byte* slice = job.slice_.get();
  const auto scale = [&](std::size_t offset, int block) {
    float value;
    std::memcpy(&value, slice + offset + 4 * static_cast<std::size_t>(block), 4);
    return double{value};
  };
  const std::vector<float>& x = job.x_[static_cast<std::size_t>(token)];
  double h[16];
  for (int c = 0; c < 16; ++c) {
    double gate = 0, up = 0;
    for (int k = 0; k < job.hidden_; ++k) {
      const std::byte* tile = slice + layout.panel + static_cast<std::size_t>(k / 16) * kTileBytes;
      gate += weights::fp9_value(weights::tile_code(tile, c, k % 16)) * scale(layout.gate_scale, k / 128) *
              double{x[static_cast<std::size_t>(k)]};
      up += weights::fp9_value(weights::tile_code(tile, 16 + c, k % 16)) * scale(layout.up_scale, k / 128) *
            double{x[static_cast<std::size_t>(k)]};
    }
    h[c] = gate / (1 + std::exp(-gate)) * up * double{job.weight_[static_cast<std::size_t>(token)]};
  }
  std::vector<double> y(static_cast<std::size_t>(job.hidden_), 0.0);
  for (int row = 0; row < job.hidden_; ++row) {
    const std::byte* tile = slice + layout.down + static_cast<std::size_t>(row / 32) * kTileBytes;
    for (int c = 0; c < 16; ++c)
      y[static_cast<std::size_t>(row)] += weights::fp9_value(weights::tile_code(tile, row % 32, c)) * h[c];
    y[static_cast<std::size_t>(row)] *=
        scale(layout.down_scale, row / 128) * double{job.fixed_scale_[static_cast<std::size_t>(row / 128)]};
  }
  return y;
}

double relative_error(const std::vector<std::int32_t>& y, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += (y[i] - expected[i]) * (y[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

TEST(ScalarKernel, a_slice_is_within_1e_6_of_double) {
  for (const int hidden : {64, 96, 576, 2048}) {
    Job job(hidden, 3, 11);
    job.run(scalar_kernels(), 0, 3); // to find a scale that uses the range, so that rounding to integers is far below 1e-6
    const std::uint64_t largest = *std::max_element(job.guard_.begin(), job.guard_.end());
    for (float& scale : job.fixed_scale_) scale *= std::exp2(std::floor(std::log2(0x1p31f / static_cast<float>(largest + 2))));
    job.clear();
    job.run(scalar_kernels(), 0, 3);
    for (int t = 0; t < 3; ++t) {
      EXPECT_LT(job.guard_[static_cast<std::size_t>(t)], weights::kGuardLimit);
      EXPECT_LT(relative_error(job.y_[static_cast<std::size_t>(t)], reference(job, t)), 1e-6) << hidden;
    }
  }
}

TEST(Kernels, both_tables_give_the_same_bits_for_every_batch_size) {
  NEEDS_AVX2();
  for (const int hidden : {64, 96, 576, 2048}) {
    Job scalar(hidden, kTokensMax, 21), wide(hidden, kTokensMax, 21);
    scalar.run(scalar_kernels(), 0, kTokensMax);
    for (int tokens = 1; tokens <= kTokensMax; ++tokens) {
      wide.clear();
      for (int first = 0; first < kTokensMax; first += tokens)
        wide.run(avx2_kernels(), first, std::min(tokens, kTokensMax - first));
      ASSERT_EQ(wide.y_, scalar.y_) << "hidden " << hidden << ", batches of " << tokens;
      ASSERT_EQ(wide.guard_, scalar.guard_) << "hidden " << hidden << ", batches of " << tokens;
    }
  }
}

TEST(Kernels, a_scalar_batch_has_the_bits_of_its_tokens_alone) {
  Job together(96, kTokensMax, 22), alone(96, kTokensMax, 22);
  together.run(scalar_kernels(), 0, kTokensMax);
  for (int t = 0; t < kTokensMax; ++t) alone.run(scalar_kernels(), t, 1);
  EXPECT_EQ(together.y_, alone.y_);
  EXPECT_EQ(together.guard_, alone.guard_);
}

TEST(Kernels, sums_are_added_to_and_wrap) {
  for (const ExpertKernels* kernels : {&scalar_kernels(), cpu_has_avx2() ? &avx2_kernels() : &scalar_kernels()}) {
    Job job(64, 1, 23);
    job.run(*kernels, 0, 1);
    const std::vector<std::int32_t> once = job.y_[0];
    const std::uint64_t guard = job.guard_[0];
    for (std::int32_t& value : job.y_[0]) value = INT32_MAX;
    job.run(*kernels, 0, 1);
    EXPECT_EQ(job.guard_[0], 2 * guard);
    for (std::size_t i = 0; i < once.size(); ++i)
      EXPECT_EQ(job.y_[0][i], static_cast<std::int32_t>(0x7FFFFFFFu + static_cast<std::uint32_t>(once[i])));
  }
}

// --- every finite code at every position of a tile

// A panel whose gate is 20 for every channel (so silu passes it on) and whose up row r picks one code; down is the unit
// matrix in blocks of 16 rows. Then y is the code, exactly scaled, and nothing else.
void codes_come_through(const ExpertKernels& kernels, int tokens) {
  constexpr int kHidden = 64;
  Job job(kHidden, tokens, 31);
  const weights::SliceLayout layout = weights::slice_layout(kHidden);
  const float one = 1.0f;
  for (const std::size_t place : {layout.gate_scale, layout.up_scale, layout.down_scale})
    std::memcpy(job.slice_.get() + place, &one, sizeof one);
  job.fixed_scale_[0] = 0x1p-8f;
  std::vector<Fp9> finite;
  for (int code = 0; code < weights::kFp9Codes; ++code)
    if (weights::fp9_finite(static_cast<Fp9>(code))) finite.push_back(static_cast<Fp9>(code));
  ASSERT_EQ(finite.size(), 496u);
  // The panel: position (row, column) of the tile holds finite[(position + shift) % 496]. x is one-hot, so gate and up sums
  // are single codes: compared with double through the whole formula, one token a column.
  weights::TileCodes down{};
  for (int r = 0; r < 32; ++r) down.code[r][r % 16] = weights::fp9_round(1.0f);
  for (std::size_t shift = 0; shift < finite.size(); ++shift) {
    weights::TileCodes panel;
    for (std::size_t r = 0; r < 32; ++r)
      for (std::size_t c = 0; c < 16; ++c) panel.code[r][c] = finite[(r * 16 + c + shift) % finite.size()];
    for (std::size_t tile = 0; tile < 4; ++tile) weights::store_tile(panel, job.slice_.get() + layout.panel + tile * kTileBytes);
    for (std::size_t tile = 0; tile < 2; ++tile) weights::store_tile(down, job.slice_.get() + layout.down + tile * kTileBytes);
    for (int first = 0; first < 16; first += tokens) {
      job.clear();
      for (int t = 0; t < tokens; ++t) {
        auto& x = job.x_[static_cast<std::size_t>(t)];
        std::fill(x.begin(), x.end(), 0.0f);
        x[static_cast<std::size_t>(first + t + 16 * (static_cast<int>(shift) % 4))] = 1.0f;
        job.weight_[static_cast<std::size_t>(t)] = 1.0f;
      }
      job.run(kernels, 0, tokens);
      for (int t = 0; t < tokens; ++t)
        for (int c = 0; c < 16; ++c) {
          const double gate = weights::fp9_value(panel.code[c][first + t]),
                       up = weights::fp9_value(panel.code[16 + c][first + t]);
          const double expected = gate / (1 + std::exp(-gate)) * up * 0x1p-8;
          const std::int32_t y = job.y_[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)];
          if (std::fabs(expected) < 2147483000.0) {
            ASSERT_NEAR(y, expected, 0.5 + std::fabs(expected) * 4e-7) << gate << ' ' << up;
          } else {
            ASSERT_GE(job.guard_[static_cast<std::size_t>(t)], weights::kGuardLimit - 1000);
          }
        }
    }
  }
}

// The same for down: h is one-hot and exactly 32 * weight (gate 32: silu(32) rounds to 32), so y is code * weight, exactly.
void down_codes_come_through(const ExpertKernels& kernels, int tokens) {
  constexpr int kHidden = 64;
  Job job(kHidden, tokens, 32);
  const weights::SliceLayout layout = weights::slice_layout(kHidden);
  const float one = 1.0f;
  for (const std::size_t place : {layout.gate_scale, layout.up_scale, layout.down_scale})
    std::memcpy(job.slice_.get() + place, &one, sizeof one);
  job.fixed_scale_[0] = 0x1p12f; // 2^17 (a subnormal's unit) * 2^-5 (of the gate): every code becomes an integer below 2^31
  // Column c of the panel switches channel c on: gate 32, up 1.
  weights::TileCodes panel{};
  for (int c = 0; c < 16; ++c) panel.code[c][c] = weights::fp9_round(32.0f), panel.code[16 + c][c] = weights::fp9_round(1.0f);
  for (std::size_t tile = 0; tile < 4; ++tile) weights::store_tile(panel, job.slice_.get() + layout.panel + tile * kTileBytes);
  std::vector<Fp9> finite;
  for (int code = 0; code < weights::kFp9Codes; ++code)
    if (weights::fp9_finite(static_cast<Fp9>(code))) finite.push_back(static_cast<Fp9>(code));
  for (std::size_t shift = 0; shift < finite.size(); ++shift) {
    weights::TileCodes down;
    for (std::size_t r = 0; r < 32; ++r)
      for (std::size_t c = 0; c < 16; ++c) down.code[r][c] = finite[(r * 16 + c + shift) % finite.size()];
    for (std::size_t tile = 0; tile < 2; ++tile) weights::store_tile(down, job.slice_.get() + layout.down + tile * kTileBytes);
    for (int first = 0; first < 16; first += tokens) {
      job.clear();
      for (int t = 0; t < tokens; ++t) {
        auto& x = job.x_[static_cast<std::size_t>(t)];
        std::fill(x.begin(), x.end(), 0.0f);
        x[static_cast<std::size_t>(first + t)] = 1.0f;
        job.weight_[static_cast<std::size_t>(t)] = 1.0f;
      }
      job.run(kernels, 0, tokens);
      for (int t = 0; t < tokens; ++t)
        for (int row = 0; row < kHidden; ++row) {
          const double expected = double{weights::fp9_value(down.code[row % 32][first + t])} * 32 * 0x1p12;
          const std::int32_t y = job.y_[static_cast<std::size_t>(t)][static_cast<std::size_t>(row)];
          if (std::fabs(expected) < 0x1p31)
            ASSERT_EQ(y, expected) << row << ' ' << first + t << ' ' << shift;
          else
            ASSERT_EQ(y, INT32_MIN) << "what does not fit is 0x80000000";
        }
    }
  }
}

TEST(ScalarKernel, every_finite_code_comes_through_gate_and_up) { codes_come_through(scalar_kernels(), 1); }
TEST(ScalarKernel, every_finite_code_comes_through_down) { down_codes_come_through(scalar_kernels(), 1); }

TEST(Avx2Kernel, every_finite_code_comes_through_gate_and_up) {
  NEEDS_AVX2();
  for (const int tokens : {1, 2, 4, 16}) codes_come_through(avx2_kernels(), tokens);
}
TEST(Avx2Kernel, every_finite_code_comes_through_down) {
  NEEDS_AVX2();
  for (const int tokens : {1, 2, 4, 16}) down_codes_come_through(avx2_kernels(), tokens);
}

// --- activations that are not ordinary

TEST(Kernels, extreme_activations_agree_and_trip_the_guard) {
  NEEDS_AVX2();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float extreme : {0.0f, -0.0f, 1e-30f, 1e-42f, 3e4f, -3e4f, 1e18f, 3e38f, inf, -inf, std::nanf("")}) {
    Job scalar(96, 5, 41), wide(96, 5, 41);
    for (Job* job : {&scalar, &wide}) {
      job->x_[1][37] = extreme;
      for (float& value : job->x_[3]) value *= extreme;
    }
    scalar.run(scalar_kernels(), 0, 5);
    wide.run(avx2_kernels(), 0, 5);
    EXPECT_EQ(wide.y_, scalar.y_) << extreme;
    EXPECT_EQ(wide.guard_, scalar.guard_) << extreme;
    wide.clear();
    for (int t = 0; t < 5; ++t) wide.run(avx2_kernels(), t, 1);
    EXPECT_EQ(wide.y_, scalar.y_) << extreme;
    EXPECT_EQ(wide.guard_, scalar.guard_) << extreme;
    EXPECT_TRUE(std::isfinite(extreme) || scalar.guard_[1] == weights::kGuardSaturated) << extreme;
  }
}

TEST(Kernels, the_guard_bounds_the_sum_and_is_not_far_above_it) {
  for (unsigned seed = 50; seed < 60; ++seed) {
    Job job(576, 8, seed);
    job.run(scalar_kernels(), 0, 8);
    for (std::size_t t = 0; t < 8; ++t) {
      std::int64_t largest = 0;
      for (const std::int32_t value : job.y_[t]) largest = std::max<std::int64_t>(largest, std::llabs(value));
      EXPECT_LE(static_cast<std::uint64_t>(largest), job.guard_[t]);
      EXPECT_LE(job.guard_[t], static_cast<std::uint64_t>(largest) * 8);
    }
  }
}

TEST(Kernels, one_rung_up_is_the_same_sum_in_units_of_256) {
  Job low(576, 1, 61), high(576, 1, 61);
  for (float& scale : high.fixed_scale_) scale *= 0x1p-8f;
  low.run(scalar_kernels(), 0, 1);
  high.run(scalar_kernels(), 0, 1);
  for (std::size_t i = 0; i < low.y_[0].size(); ++i) EXPECT_NEAR(high.y_[0][i], low.y_[0][i] / 256.0, 0.51);
  EXPECT_NEAR(static_cast<double>(high.guard_[0]), static_cast<double>(low.guard_[0]) / 256, 1.01);
}

TEST(Guard, saturates_and_adds_in_any_order) {
  using weights::add_guards;
  using weights::kGuardSaturated;
  EXPECT_EQ(add_guards(3, 4), 7u);
  EXPECT_EQ(add_guards(kGuardSaturated, 1), kGuardSaturated);
  EXPECT_EQ(add_guards(kGuardSaturated, kGuardSaturated), kGuardSaturated);
  EXPECT_EQ(add_guards(kGuardSaturated - 1, 1), kGuardSaturated);
}

TEST(Select, the_environment_can_force_the_scalar_table) {
  ASSERT_EQ(setenv("DUCTL_KERNELS", "scalar", 1), 0);
  EXPECT_STREQ(select_kernels().value()->name, "scalar");
  ASSERT_EQ(setenv("DUCTL_KERNELS", "avx2", 1), 0);
  if (cpu_has_avx2())
    EXPECT_STREQ(select_kernels().value()->name, "avx2");
  else
    EXPECT_EQ(select_kernels().error().code, ErrorCode::kUsage); // not another table without a word
  ASSERT_EQ(setenv("DUCTL_KERNELS", "sse", 1), 0);
  EXPECT_EQ(select_kernels().error().code, ErrorCode::kUsage);
  ASSERT_EQ(unsetenv("DUCTL_KERNELS"), 0);
  EXPECT_STREQ(select_kernels().value()->name, cpu_has_avx2() ? "avx2" : "scalar");
}

} // namespace
} // namespace ductl::agent
