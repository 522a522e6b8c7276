// Packing: what comes out of a slice is what went into the matrices.
#include "tests/weights/matrices.hpp"
#include "weights/e4m3.hpp"
#include "weights/fixed_point.hpp"
#include "weights/limits.hpp"
#include "weights/tile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ductl::weights {
namespace {

using test::Expert;
using test::make_matrix;
using test::Matrix;
using test::random_expert;
using test::set;
using ::testing::HasSubstr;

float scale_at(const std::vector<std::byte>& slice, std::size_t offset, int block) {
  float scale;
  std::memcpy(&scale, slice.data() + offset + sizeof(float) * static_cast<std::size_t>(block), sizeof scale);
  return scale;
}

// Weight (channel of the slice, hidden index) of gate, up and down as the stored form says.
struct Unpacked {
  std::vector<std::byte> slice;
  SliceLayout layout;
  double gate(int channel, int column) const { return panel(channel, column, layout.gate_scale); }
  double up(int channel, int column) const { return panel(16 + channel, column, layout.up_scale); }
  double down(int row, int channel) const {
    const std::byte* tile = slice.data() + layout.down_tile(row / 32);
    return double{tile_value(tile, layout.format, row % 32, channel)} * double{scale_at(slice, layout.down_scale, row / 128)};
  }
  double panel(int row, int column, std::size_t scale) const {
    const std::byte* tile = slice.data() + layout.panel_tile(column / 16);
    return double{tile_value(tile, layout.format, row, column % 16)} * double{scale_at(slice, scale, column / 128)};
  }
};

Unpacked pack(const Expert& expert, int index, TileFormat format = TileFormat::NineBit) {
  const SliceLayout layout = slice_layout(expert.gate.view.columns, format);
  Unpacked unpacked{std::vector<std::byte>(layout.bytes, std::byte{0xEE}), layout};
  const auto prepared = prepare_expert(expert.weights(), format);
  EXPECT_TRUE(prepared) << prepared.error().text();
  const auto packed = pack_slice(*prepared, index, unpacked.slice);
  EXPECT_TRUE(packed) << packed.error().text();
  return unpacked;
}

double element(const Matrix& matrix, int row, int column) { // without scale for fp8
  const std::size_t index =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.view.columns) + static_cast<std::size_t>(column);
  if (matrix.view.type == DType::F8E4M3) {
    const std::size_t blocks = static_cast<std::size_t>((matrix.view.columns + 127) / 128);
    return double{e4m3_value(std::to_integer<std::uint8_t>(matrix.data[index]))} *
           double{matrix.scale[static_cast<std::size_t>(row / 128) * blocks + static_cast<std::size_t>(column / 128)]};
  }
  std::uint16_t word = 0;
  float value = 0;
  std::memcpy(&word, &matrix.data[test::bytes_of(matrix.view.type) * index], 2);
  if (matrix.view.type == DType::F32)
    std::memcpy(&value, &matrix.data[4 * index], 4);
  else
    value = matrix.view.type == DType::Bf16 ? bf16_to_float(word) : f16_to_float(word);
  return value;
}

TEST(SliceLayout, sizes_are_those_of_the_format_page) {
  EXPECT_EQ(slice_layout(7168).bytes, 387776u);
  EXPECT_EQ(slice_layout(7168).panel, 704u);
  EXPECT_EQ(slice_layout(2048).bytes, 110784u);
  const SliceLayout small = slice_layout(96); // one short block
  EXPECT_EQ(small.scale_blocks, 1);
  EXPECT_EQ(small.panel, 64u);
  EXPECT_EQ(small.down, 64u + 6 * 576);
  EXPECT_EQ(small.bytes, 64u + 9 * 576);
  EXPECT_EQ(slice_layout(576).scale_blocks, 5);
}

TEST(Pack, fp8_sources_lose_nothing) {
  std::mt19937 random(3);
  for (const auto& [hidden, channels] : {std::pair{96, 48}, std::pair{288, 208}, std::pair{576, 272}}) {
    const Expert expert = random_expert(DType::F8E4M3, hidden, channels, random);
    for (int index = 0; index < channels / 16; ++index) {
      const Unpacked slice = pack(expert, index);
      for (int c = 0; c < 16; ++c)
        for (int k = 0; k < hidden; ++k) {
          ASSERT_EQ(slice.gate(c, k), element(expert.gate, 16 * index + c, k));
          ASSERT_EQ(slice.up(c, k), element(expert.up, 16 * index + c, k));
          ASSERT_EQ(slice.down(k, c), element(expert.down, k, 16 * index + c));
        }
    }
  }
}

TEST(Pack, bf16_scales_of_fp8_sources_are_read) {
  std::mt19937 random(4);
  Expert expert = random_expert(DType::F8E4M3, 160, 144, random);
  std::vector<std::uint16_t> scales;
  for (float& scale : expert.gate.scale) {
    scale = bf16_to_float(float_to_bf16(scale));
    scales.push_back(float_to_bf16(scale));
  }
  expert.gate.view.scale = reinterpret_cast<const std::byte*>(scales.data());
  expert.gate.view.scale_type = DType::Bf16;
  const Unpacked slice = pack(expert, 8); // channels 128..143: the second row of blocks
  for (int k = 0; k < 160; ++k) ASSERT_EQ(slice.gate(0, k), element(expert.gate, 128, k));
}

TEST(Pack, fp8_sources_lose_nothing_in_e4m3_either) {
  std::mt19937 random(15);
  const Expert expert = random_expert(DType::F8E4M3, 288, 144, random);
  for (const int index : {0, 7, 8}) {
    const Unpacked eight = pack(expert, index, TileFormat::EightBit), nine = pack(expert, index);
    EXPECT_EQ(eight.slice.size() - eight.layout.panel, (nine.slice.size() - nine.layout.panel) / 9 * 8);
    for (int c = 0; c < 16; ++c)
      for (int k = 0; k < 288; ++k) {
        ASSERT_EQ(eight.gate(c, k), element(expert.gate, 16 * index + c, k));
        ASSERT_EQ(eight.up(c, k), element(expert.up, 16 * index + c, k));
        ASSERT_EQ(eight.down(k, c), element(expert.down, k, 16 * index + c));
      }
    SliceNorms a, b;
    slice_norms(eight.slice.data(), 288, a, TileFormat::EightBit);
    slice_norms(nine.slice.data(), 288, b);
    EXPECT_EQ(a.gate, b.gate);
    EXPECT_EQ(a.up, b.up);
    EXPECT_EQ(a.down, b.down);
  }
}

TEST(Pack, quantised_sources_stay_within_a_seventeenth) {
  std::mt19937 random(5);
  for (const DType type : {DType::Bf16, DType::F16, DType::F32}) {
    const Expert expert = random_expert(type, 288, 144, random);
    double error = 0, norm = 0;
    for (int index = 0; index < 9; ++index) {
      const Unpacked slice = pack(expert, index);
      const auto check = [&](double stored, double source) {
        error += (stored - source) * (stored - source);
        norm += source * source;
        // fp9's normal range reaches 2^-14 / 2^9 = 2^-23 of the block's largest value; sigma stands for it within 8 x
        if (std::fabs(source) > 1e-5) { ASSERT_LE(std::fabs(stored - source), std::fabs(source) / 17 * 1.0000001) << source; }
      };
      for (int c = 0; c < 16; ++c)
        for (int k = 0; k < 288; ++k) {
          check(slice.gate(c, k), element(expert.gate, 16 * index + c, k));
          check(slice.up(c, k), element(expert.up, 16 * index + c, k));
          check(slice.down(k, c), element(expert.down, k, 16 * index + c));
        }
    }
    EXPECT_NEAR(std::sqrt(error / norm), 0.026, 0.003);
  }
}

TEST(Pack, values_that_fp9_can_hold_survive_exactly) {
  // Any mix of codes times a power of two a block, as long as the block spans no more than fp9 does: packs without loss,
  // whatever the power is. (quantise(dequantise(x)) = x for all codes.)
  std::mt19937 random(6);
  std::uniform_int_distribution<int> code(0, 0xBF), sign(0, 1); // below 512
  Expert expert{make_matrix("gate", DType::F32, 144, 160), make_matrix("up", DType::F32, 144, 160),
                make_matrix("down", DType::F32, 160, 144)};
  for (Matrix* matrix : {&expert.gate, &expert.up, &expert.down})
    for (int r = 0; r < matrix->view.rows; ++r)
      for (int c = 0; c < matrix->view.columns; ++c) {
        const int exponent = 7 * (r / 128) - 11 * (c / 128) - 20;
        float value = fp9_value(static_cast<Fp9>(code(random) | sign(random) << 8));
        if (r % 128 == 0 && c % 128 == 0) value = 256; // so that the block's largest lies where the scale puts it
        set(*matrix, r, c, std::ldexp(value, exponent));
      }
  for (int index = 0; index < 9; ++index) {
    const Unpacked slice = pack(expert, index);
    for (int c = 0; c < 16; ++c)
      for (int k = 0; k < 160; ++k) {
        ASSERT_EQ(slice.gate(c, k), element(expert.gate, 16 * index + c, k));
        ASSERT_EQ(slice.up(c, k), element(expert.up, 16 * index + c, k));
        ASSERT_EQ(slice.down(k, c), element(expert.down, k, 16 * index + c));
      }
  }
}

TEST(Pack, padding_is_zero_and_blocks_of_zeros_have_scale_one) {
  const Expert expert{make_matrix("gate", DType::Bf16, 16, 96), make_matrix("up", DType::Bf16, 16, 96),
                      make_matrix("down", DType::Bf16, 96, 16)};
  const Unpacked slice = pack(expert, 0);
  EXPECT_EQ(scale_at(slice.slice, 0, 0), 1.0f);
  EXPECT_EQ(scale_at(slice.slice, 4, 0), 1.0f);
  EXPECT_EQ(scale_at(slice.slice, 8, 0), 1.0f);
  for (std::size_t i = 12; i < slice.slice.size(); ++i) ASSERT_EQ(std::to_integer<int>(slice.slice[i]), 0) << i;
}

TEST(Pack, tiny_and_huge_weights_do_not_break_the_scale) {
  Expert expert{make_matrix("gate", DType::F32, 16, 32), make_matrix("up", DType::F32, 16, 32),
                make_matrix("down", DType::F32, 32, 16)};
  set(expert.gate, 3, 4, 3e38f);
  set(expert.up, 3, 4, 1e-44f); // far below what a normal scale reaches: becomes zero, and is not an accident of divisions
  set(expert.down, 3, 4, -0x1p-126f);
  const Unpacked slice = pack(expert, 0);
  EXPECT_NEAR(slice.gate(3, 4) / 3e38, 1, 1.0 / 17);
  EXPECT_EQ(slice.up(3, 4), 0.0);
  EXPECT_EQ(slice.down(3, 4), -0x1p-126);
}

TEST(Pack, refuses_nan_and_infinity_with_tensor_and_index) {
  std::mt19937 random(7);
  for (const DType type : {DType::Bf16, DType::F16, DType::F32}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      Expert expert = random_expert(type, 288, 144, random);
      set(expert.down, 200, 131, bad);
      const auto prepared = prepare_expert(expert.weights());
      ASSERT_FALSE(prepared);
      EXPECT_EQ(prepared.error().code, ErrorCode::kWeightNotFinite);
      EXPECT_EQ(prepared.error().place, "down[200][131]");
    }
  }
  Expert expert = random_expert(DType::F8E4M3, 288, 144, random);
  expert.up.data[37 * 288 + 259] = std::byte{0xFF};
  for (const TileFormat format : {TileFormat::NineBit, TileFormat::EightBit}) {
    const auto prepared = prepare_expert(expert.weights(), format);
    ASSERT_TRUE(prepared);
    std::vector<std::byte> out(slice_layout(288, format).bytes);
    EXPECT_TRUE(pack_slice(*prepared, 1, out)); // channels 16..31 are sound
    const auto packed = pack_slice(*prepared, 2, out);
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code, ErrorCode::kWeightNotFinite);
    EXPECT_EQ(packed.error().place, "up[37][259]");
  }
  expert.gate.scale[1] = std::nanf("");
  const auto bad_scale = prepare_expert(expert.weights());
  ASSERT_FALSE(bad_scale);
  EXPECT_EQ(bad_scale.error().place, "gate_scale_inv[0][1]");
}

ModelConfig moe_config() {
  ModelConfig config;
  config.hidden = 7168, config.layers = 61, config.intermediate = 18432;
  config.moe.experts = 256, config.moe.intermediate = 2048, config.moe.shared_experts = 1, config.moe.first_moe_layer = 3;
  return config;
}

TEST(Slices, are_counted_over_dense_routed_and_shared_experts) {
  const ModelConfig config = moe_config();
  EXPECT_EQ(expert_count(config, 0), 1);
  EXPECT_EQ(shared_expert(config, 0), -1);
  EXPECT_EQ(expert_slices(config, 0, 0), 1152);
  EXPECT_EQ(expert_count(config, 3), 257);
  EXPECT_EQ(shared_expert(config, 3), 256);
  EXPECT_EQ(expert_slices(config, 3, 256), 128);
  EXPECT_EQ(slice_count(config), 3u * 1152 + 58u * 257 * 128);
  EXPECT_TRUE(check_sliceable(config));
}

TEST(Slices, a_model_that_cannot_be_cut_is_refused_by_the_name_of_the_field) {
  ModelConfig config = moe_config();
  config.hidden = 7168 + 16;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("hidden_size is 7184"));
  config = moe_config(), config.moe.intermediate = 2040;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("moe_intermediate_size is 2040"));
  config = moe_config(), config.intermediate = 18440;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("intermediate_size is 18440"));
  config.moe.first_moe_layer = 0; // no dense layer: its size does not matter
  EXPECT_TRUE(check_sliceable(config));
}

TEST(Slices, a_model_beyond_what_control_plane_and_wire_carry_is_refused_by_the_name_of_the_field) {
  ModelConfig config = moe_config();
  config.hidden = kHiddenMax;
  config.layers = kLayersMax;
  config.moe.experts_per_token = kChoicesMax - 1; // and the shared one
  EXPECT_TRUE(check_sliceable(config));
  config.hidden = kHiddenMax + 32;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("hidden_size is 32800"));
  config = moe_config(), config.layers = kLayersMax + 1;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("num_hidden_layers is 1025"));
  config = moe_config(), config.moe.experts_per_token = kChoicesMax;
  EXPECT_THAT(check_sliceable(config).error().message, HasSubstr("num_experts_per_tok is 64, but ducks take at most 63"));
  config.moe.shared_experts = 0;
  EXPECT_TRUE(check_sliceable(config));
}

} // namespace
} // namespace ductl::weights
