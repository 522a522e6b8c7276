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
using weights::TileFormat;

constexpr TileFormat kFormats[] = {TileFormat::NineBit, TileFormat::EightBit};

// All tables but the scalar one, which they are compared with.
std::span<const ExpertKernels* const> vector_kernels() { return all_kernels().first(all_kernels().size() - 1); }

#define NEEDS_AVX2()                                                                                                             \
  if (!cpu_has_avx2()) GTEST_SKIP() << "this CPU lacks AVX2, FMA or F16C"

// A whole slice in double, from tile_value() alone; y in units of the fixed point, before rounding.
std::vector<double> reference(const Job& job, int number, int token) {
  const weights::SliceLayout layout = weights::slice_layout(job.hidden_, job.format_);
  const std::byte* slice = job.slice(number);
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
      const std::byte* tile = slice + layout.panel_tile(k / 16);
      gate += weights::tile_value(tile, job.format_, c, k % 16) * scale(layout.gate_scale, k / 128) *
              double{x[static_cast<std::size_t>(k)]};
      up += weights::tile_value(tile, job.format_, 16 + c, k % 16) * scale(layout.up_scale, k / 128) *
            double{x[static_cast<std::size_t>(k)]};
    }
    h[c] = gate / (1 + std::exp(-gate)) * up * double{job.weight_[static_cast<std::size_t>(token)]};
  }
  std::vector<double> y(static_cast<std::size_t>(job.hidden_), 0.0);
  for (int row = 0; row < job.hidden_; ++row) {
    const std::byte* tile = slice + layout.down_tile(row / 32);
    for (int c = 0; c < 16; ++c) y[static_cast<std::size_t>(row)] += weights::tile_value(tile, job.format_, row % 32, c) * h[c];
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

TEST(ScalarKernel, slices_are_within_1e_6_of_double) {
  for (const TileFormat format : kFormats)
    for (const int hidden : {64, 96, 576, 2048}) {
      Job job(hidden, 3, 11, 2, format);
      job.run(scalar_kernels(), 0, 3); // to find a scale that uses the range, so that rounding to integers is far below 1e-6
      const std::uint64_t largest = *std::max_element(job.guard_.begin(), job.guard_.end());
      for (float& scale : job.fixed_scale_) scale *= std::exp2(std::floor(std::log2(0x1p31f / static_cast<float>(largest + 2))));
      job.clear();
      job.run(scalar_kernels(), 0, 3);
      for (int t = 0; t < 3; ++t) {
        EXPECT_LT(job.guard_[static_cast<std::size_t>(t)], weights::kGuardLimit);
        std::vector<double> expected = reference(job, 0, t);
        const std::vector<double> second = reference(job, 1, t);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += second[i];
        EXPECT_LT(relative_error(job.y_[static_cast<std::size_t>(t)], expected), 1e-6) << hidden;
      }
    }
}

TEST(Kernels, all_tables_give_the_same_bits_for_every_batch_size_and_group) {
  NEEDS_AVX2();
  constexpr int kTokens = 64;
  for (const TileFormat format : kFormats)
    for (const int hidden : {64, 96, 576, 2048}) {
      const int slices = hidden <= 96 ? 11 : 3; // more than a group
      Job scalar(hidden, kTokens, 21, slices, format), wide(hidden, kTokens, 21, slices, format);
      scalar.run(scalar_kernels(), 0, kTokens);
      for (const ExpertKernels* kernels : vector_kernels())
        for (int tokens = 1; tokens <= kTokens; ++tokens) {
          wide.clear();
          const int group = 1 + tokens % kCallSlicesMax;
          for (int first = 0; first < kTokens; first += tokens)
            wide.run(*kernels, first, std::min(tokens, kTokens - first), group);
          ASSERT_EQ(wide.y_, scalar.y_) << kernels->name << ", hidden " << hidden << ", batches of " << tokens;
          ASSERT_EQ(wide.guard_, scalar.guard_) << kernels->name << ", hidden " << hidden << ", batches of " << tokens;
        }
    }
}

TEST(Kernels, a_prompt_of_512_tokens_has_the_bits_of_its_tokens_alone) {
  NEEDS_AVX2();
  for (const ExpertKernels* kernels : vector_kernels()) {
    Job together(96, kCallTokensMax, 24, 5), alone(96, kCallTokensMax, 24, 5);
    together.run(*kernels, 0, kCallTokensMax);
    for (int t = 0; t < kCallTokensMax; ++t) alone.run(*kernels, t, 1, 1);
    EXPECT_EQ(together.y_, alone.y_);
    EXPECT_EQ(together.guard_, alone.guard_);
  }
}

TEST(Kernels, a_scalar_batch_has_the_bits_of_its_tokens_alone) {
  constexpr int kTokens = 16;
  Job together(96, kTokens, 22), alone(96, kTokens, 22);
  together.run(scalar_kernels(), 0, kTokens);
  for (int t = 0; t < kTokens; ++t) alone.run(scalar_kernels(), t, 1);
  EXPECT_EQ(together.y_, alone.y_);
  EXPECT_EQ(together.guard_, alone.guard_);
}

TEST(Kernels, down_alone_adds_what_the_whole_adds) {
  for (const ExpertKernels* kernels : all_kernels()) {
    Job job(576, 8, 25);
    job.run(*kernels, 0, 8);
    const auto whole = job.y_;
    job.clear();
    job.run({kernels->name, kernels->down_only, kernels->down_only}, 0, 8); // the scratch still holds what it needs
    EXPECT_EQ(job.y_, whole) << kernels->name;
  }
}

TEST(Kernels, sums_are_added_to_and_wrap) {
  for (const ExpertKernels* kernels : all_kernels()) {
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

// The codes of a format with their values, and tiles written with them.
struct Palette {
  explicit Palette(TileFormat tile_format) : format(tile_format) {
    for (int code = 0; code < (format == TileFormat::NineBit ? weights::kFp9Codes : 256); ++code)
      if (std::isfinite(value(code))) finite.push_back(code);
  }
  [[nodiscard]] double value(int code) const {
    return format == TileFormat::NineBit ? weights::fp9_value(static_cast<Fp9>(code))
                                         : weights::e4m3_value(static_cast<std::uint8_t>(code));
  }
  [[nodiscard]] int code_of(double wanted) const {
    return *std::find_if(finite.begin(), finite.end(), [&](int code) { return value(code) == wanted; });
  }
  // codes[row][column]
  void store(const int (&codes)[32][16], std::byte* tile) const {
    weights::TileCodes fp9;
    weights::TileE4m3 e4m3;
    for (int r = 0; r < 32; ++r)
      for (int c = 0; c < 16; ++c) {
        fp9.code[r][c] = static_cast<Fp9>(codes[r][c]);
        e4m3.code[r][c] = static_cast<std::uint8_t>(codes[r][c]);
      }
    format == TileFormat::NineBit ? weights::store_tile(fp9, tile) : weights::store_tile(e4m3, tile);
  }

  TileFormat format;
  std::vector<int> finite;
};

// Position (row, column) of the tile holds finite[(position + shift) % size].
void fill_shifted(const Palette& palette, std::size_t shift, int (&codes)[32][16]) {
  for (std::size_t r = 0; r < 32; ++r)
    for (std::size_t c = 0; c < 16; ++c) codes[r][c] = palette.finite[(r * 16 + c + shift) % palette.finite.size()];
}

void set_unit_scales(Job& job) {
  const weights::SliceLayout layout = weights::slice_layout(job.hidden_, job.format_);
  const float one = 1.0f;
  for (const std::size_t place : {layout.gate_scale, layout.up_scale, layout.down_scale})
    std::memcpy(job.slice(0) + place, &one, sizeof one);
}

// x is one-hot, so gate and up sums are single codes: compared with double through the whole formula, one token a column; down is
// the unit matrix in blocks of 16 rows.
void codes_come_through(const ExpertKernels& kernels, TileFormat format, int tokens) {
  constexpr int kHidden = 64;
  const Palette palette(format);
  ASSERT_EQ(palette.finite.size(), format == TileFormat::NineBit ? 496u : 254u);
  Job job(kHidden, tokens, 31, 1, format);
  const weights::SliceLayout layout = weights::slice_layout(kHidden, format);
  set_unit_scales(job);
  job.fixed_scale_[0] = 0x1p-8f;
  int down[32][16];
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c) down[r][c] = palette.code_of(r % 16 == c ? 1.0 : 0.0);
  for (int tile = 0; tile < 2; ++tile) palette.store(down, job.slice(0) + layout.down_tile(tile));
  for (std::size_t shift = 0; shift < palette.finite.size(); ++shift) {
    int panel[32][16];
    fill_shifted(palette, shift, panel);
    for (int tile = 0; tile < 4; ++tile) palette.store(panel, job.slice(0) + layout.panel_tile(tile));
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
          const double gate = palette.value(panel[c][first + t]), up = palette.value(panel[16 + c][first + t]);
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
void down_codes_come_through(const ExpertKernels& kernels, TileFormat format, int tokens) {
  constexpr int kHidden = 64;
  const Palette palette(format);
  Job job(kHidden, tokens, 32, 1, format);
  const weights::SliceLayout layout = weights::slice_layout(kHidden, format);
  set_unit_scales(job);
  job.fixed_scale_[0] = 0x1p12f; // 2^17 (a subnormal's unit) * 2^-5 (of the gate): every code becomes an integer below 2^31
  // Column c of the panel switches channel c on: gate 32, up 1.
  int panel[32][16];
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c) panel[r][c] = palette.code_of(r % 16 != c ? 0.0 : r < 16 ? 32.0 : 1.0);
  for (int tile = 0; tile < 4; ++tile) palette.store(panel, job.slice(0) + layout.panel_tile(tile));
  for (std::size_t shift = 0; shift < palette.finite.size(); ++shift) {
    int down[32][16];
    fill_shifted(palette, shift, down);
    for (int tile = 0; tile < 2; ++tile) palette.store(down, job.slice(0) + layout.down_tile(tile));
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
          const double expected = palette.value(down[row % 32][first + t]) * 32 * 0x1p12;
          const std::int32_t y = job.y_[static_cast<std::size_t>(t)][static_cast<std::size_t>(row)];
          if (std::fabs(expected) < 0x1p31)
            ASSERT_EQ(y, expected) << row << ' ' << first + t << ' ' << shift;
          else
            ASSERT_EQ(y, INT32_MIN) << "what does not fit is 0x80000000";
        }
    }
  }
}

TEST(Kernels, every_finite_code_comes_through_gate_and_up) {
  for (const TileFormat format : kFormats)
    for (const ExpertKernels* kernels : all_kernels())
      for (const int tokens : {1, 2, 4, 16})
        if (tokens == 1 || kernels != &scalar_kernels()) codes_come_through(*kernels, format, tokens);
}

TEST(Kernels, every_finite_code_comes_through_down) {
  for (const TileFormat format : kFormats)
    for (const ExpertKernels* kernels : all_kernels())
      for (const int tokens : {1, 2, 4, 16})
        if (tokens == 1 || kernels != &scalar_kernels()) down_codes_come_through(*kernels, format, tokens);
}

TEST(Kernels, the_same_weights_give_the_same_bits_in_either_format) {
  constexpr int kHidden = 576;
  Job e4m3(kHidden, 8, 71, 3, TileFormat::EightBit), fp9(kHidden, 8, 71, 3, TileFormat::NineBit);
  const weights::SliceLayout from = weights::slice_layout(kHidden, TileFormat::EightBit), to = weights::slice_layout(kHidden);
  for (int number = 0; number < 3; ++number) {
    std::memcpy(fp9.slice(number), e4m3.slice(number), from.panel); // scales
    for (int tile = 0; tile < kHidden / 16 + kHidden / 32; ++tile) {
      weights::TileCodes codes;
      for (int r = 0; r < 32; ++r)
        for (int c = 0; c < 16; ++c)
          codes.code[r][c] = weights::e4m3_to_fp9(weights::tile_e4m3(e4m3.slice(number) + from.panel_tile(tile), r, c));
      weights::store_tile(codes, fp9.slice(number) + to.panel_tile(tile));
    }
  }
  fp9.x_ = e4m3.x_;
  fp9.weight_ = e4m3.weight_;
  for (const ExpertKernels* kernels : all_kernels()) {
    e4m3.clear();
    fp9.clear();
    e4m3.run(*kernels, 0, 8);
    fp9.run(*kernels, 0, 8);
    EXPECT_EQ(e4m3.y_, fp9.y_) << kernels->name;
    EXPECT_EQ(e4m3.guard_, fp9.guard_) << kernels->name;
  }
}

// --- activations that are not ordinary

TEST(Kernels, extreme_activations_agree_and_trip_the_guard) {
  NEEDS_AVX2();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float extreme : {0.0f, -0.0f, 1e-30f, 1e-42f, 3e4f, -3e4f, 1e18f, 3e38f, inf, -inf, std::nanf("")}) {
    for (const TileFormat format : kFormats) {
      Job scalar(96, 5, 41, 2, format), wide(96, 5, 41, 2, format);
      for (Job* job : {&scalar, &wide}) {
        job->x_[1][37] = extreme;
        for (float& value : job->x_[3]) value *= extreme;
      }
      scalar.run(scalar_kernels(), 0, 5);
      EXPECT_TRUE(std::isfinite(extreme) || scalar.guard_[1] == weights::kGuardSaturated) << extreme;
      for (const ExpertKernels* kernels : vector_kernels()) {
        wide.clear();
        wide.run(*kernels, 0, 5);
        EXPECT_EQ(wide.y_, scalar.y_) << extreme;
        EXPECT_EQ(wide.guard_, scalar.guard_) << extreme;
        wide.clear();
        for (int t = 0; t < 5; ++t) wide.run(*kernels, t, 1);
        EXPECT_EQ(wide.y_, scalar.y_) << extreme;
        EXPECT_EQ(wide.guard_, scalar.guard_) << extreme;
      }
    }
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

TEST(Select, the_environment_names_a_table_and_a_name_that_is_none_is_an_error) {
  for (const ExpertKernels* kernels : all_kernels()) {
    ASSERT_EQ(setenv("DUCTL_KERNELS", kernels->name, 1), 0);
    EXPECT_EQ(select_kernels().value(), kernels);
  }
  ASSERT_EQ(setenv("DUCTL_KERNELS", "sse", 1), 0);
  EXPECT_EQ(select_kernels().error().code, ErrorCode::kUsage);
  ASSERT_EQ(unsetenv("DUCTL_KERNELS"), 0);
  EXPECT_EQ(select_kernels().value(), all_kernels().front());
  EXPECT_EQ(all_kernels().size(), cpu_has_avx2() ? 3u : 1u);
}

} // namespace
} // namespace ductl::agent
