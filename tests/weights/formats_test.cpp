// Number formats and tiles against their definitions, code by code.
#include "weights/e4m3.hpp"
#include "weights/float_types.hpp"
#include "weights/fp9.hpp"
#include "weights/quantize.hpp"
#include "weights/tile.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace ductl::weights {
namespace {

// The definition, in double and without bit tricks.
double fp9_by_definition(int code) {
  const double sign = (code & 0x100) != 0 ? -1 : 1;
  const int exponent = (code >> 3) & 31, mantissa = code & 7;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -17);
  return sign * std::ldexp(8 + mantissa, exponent - 15 - 3);
}

double e4m3_by_definition(int code) {
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 7 - 3);
}

TEST(Fp9, all_512_codes_have_the_value_of_the_definition) {
  for (int code = 0; code < kFp9Codes; ++code) {
    const double expected = fp9_by_definition(code);
    const float value = fp9_value(static_cast<Fp9>(code));
    EXPECT_EQ(fp9_finite(static_cast<Fp9>(code)), std::isfinite(expected)) << code;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(value), expected) << code;
      EXPECT_EQ(std::signbit(value), (code & 0x100) != 0) << code;
    }
  }
}

TEST(Fp9, a_code_is_the_top_of_an_ieee_half) {
  for (int code = 0; code < kFp9Codes; ++code) {
    const float half = f16_to_float(static_cast<std::uint16_t>(code << 7));
    const float value = fp9_value(static_cast<Fp9>(code));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(half), std::bit_cast<std::uint32_t>(value)) << code;
    }
  }
}

TEST(Fp9, rounding_a_code_s_own_value_gives_the_code) {
  for (int code = 0; code < kFp9Codes; ++code) {
    const auto fp9 = static_cast<Fp9>(code);
    if (!fp9_finite(fp9)) continue;
    EXPECT_EQ(fp9_round(fp9_value(fp9)), fp9) << code;
    EXPECT_EQ(fp9_round_finite(fp9_value(fp9)), fp9) << code;
  }
}

TEST(Fp9, rounds_to_nearest_and_ties_to_even_between_all_neighbours) {
  for (int code = 0; code + 1 < 0xF8; ++code) {
    const float low = fp9_value(static_cast<Fp9>(code)), high = fp9_value(static_cast<Fp9>(code + 1));
    const float middle = (low + high) / 2; // exact
    const int even = code % 2 == 0 ? code : code + 1;
    for (const int sign : {0, 0x100}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      EXPECT_EQ(fp9_round(s * middle), even | sign) << code;
      EXPECT_EQ(fp9_round(s * std::nextafter(middle, 0.0f)), code | sign) << code;
      EXPECT_EQ(fp9_round(s * std::nextafter(middle, 1e9f)), (code + 1) | sign) << code;
    }
  }
}

TEST(Fp9, what_is_not_finite_or_too_large_stays_visible) {
  EXPECT_EQ(fp9_round(std::numeric_limits<float>::infinity()), kFp9Infinity);
  EXPECT_EQ(fp9_round(-63488.0f), kFp9Infinity | kFp9Sign);
  EXPECT_EQ(fp9_round(std::nextafter(63488.0f, 0.0f)), 0xF7);
  EXPECT_TRUE(std::isnan(fp9_value(fp9_round(std::nanf("")))));
}

TEST(Fp9, error_is_at_most_a_seventeenth_of_every_normal_value) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-14, 15.9f);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::exp2(exponent(random));
    EXPECT_LE(std::fabs(fp9_value(fp9_round(value)) - value), value / 17 * 1.0000001f) << value;
  }
}

TEST(E4m3, all_256_codes_are_transcoded_exactly) {
  int nans = 0;
  for (int code = 0; code < 256; ++code) {
    const double expected = e4m3_by_definition(code);
    const Fp9 fp9 = e4m3_to_fp9(static_cast<std::uint8_t>(code));
    EXPECT_EQ(kE4m3ToFp9[static_cast<std::size_t>(code)], fp9);
    if (std::isnan(expected)) {
      ++nans;
      EXPECT_TRUE(e4m3_is_nan(static_cast<std::uint8_t>(code)));
      EXPECT_FALSE(fp9_finite(fp9)) << code;
      EXPECT_TRUE(std::isnan(e4m3_value(static_cast<std::uint8_t>(code))));
      continue;
    }
    EXPECT_EQ(static_cast<double>(e4m3_value(static_cast<std::uint8_t>(code))), expected) << code;
    EXPECT_EQ(static_cast<double>(fp9_value(fp9)), expected) << code;
    EXPECT_EQ(std::signbit(fp9_value(fp9)), code >= 128) << code;
    const int exponent = (fp9 >> 3) & 31;
    EXPECT_TRUE(expected == 0 || (exponent >= 6 && exponent <= 23)) << code;
  }
  EXPECT_EQ(nans, 2);
}

TEST(FloatTypes, every_half_and_bf16_pattern_survives_the_way_there_and_back) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    if (std::isnan(f16_to_float(word))) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f16_to_float(word)))));
    } else {
      EXPECT_EQ(float_to_f16(f16_to_float(word)), word);
      const bool finite = (bits & 0x7C00) != 0x7C00;
      EXPECT_TRUE(!finite || f16_to_float_finite(word) == f16_to_float(word));
    }
    if (std::isnan(bf16_to_float(word))) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(bf16_to_float(word)))));
    } else {
      EXPECT_EQ(float_to_bf16(bf16_to_float(word)), word);
    }
  }
}

TEST(FloatTypes, narrowing_rounds_to_nearest_even_everywhere) {
  for (unsigned bits = 0; bits < 0x7C00; ++bits) { // every pair of neighbouring halves
    const double low = f16_to_float(static_cast<std::uint16_t>(bits));
    const double high = bits == 0x7BFF ? 65536 : f16_to_float(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(float_to_f16(middle), bits + bits % 2) << bits;
    EXPECT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    EXPECT_EQ(float_to_f16(-std::nextafter(middle, 1e9f)), (bits + 1) | 0x8000) << bits;
  }
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80); // a tie, down to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82); // a tie, up to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80); // overflow
}

TEST(Tile, every_code_comes_back_from_every_position) {
  alignas(64) std::byte tile[tile_bytes(TileFormat::NineBit)];
  for (int shift = 0; shift < kFp9Codes; ++shift) { // 512 tiles: each position sees each code
    TileCodes codes;
    for (int r = 0; r < kTileRows; ++r)
      for (int c = 0; c < kTileColumns; ++c) codes.code[r][c] = static_cast<Fp9>((r * kTileColumns + c + shift) % kFp9Codes);
    store_tile(codes, tile);
    for (int r = 0; r < kTileRows; ++r)
      for (int c = 0; c < kTileColumns; ++c) ASSERT_EQ(tile_code(tile, r, c), codes.code[r][c]) << r << ' ' << c << ' ' << shift;
  }
}

TEST(Tile, bits_lie_where_the_format_page_says) {
  TileCodes codes{};
  codes.code[5][11] = 0x1A7; // s=1 e=20 m=7
  alignas(64) std::byte tile[tile_bytes(TileFormat::NineBit)];
  store_tile(codes, tile);
  for (std::size_t i = 0; i < sizeof tile; ++i) {
    int expected = 0;
    if (i == 32 + 5) expected = 1 << (7 - 3); // h = 1, j = 3
    if (i == 64 + 32 * 11 + 5) expected = 0x1A7 >> 1;
    EXPECT_EQ(std::to_integer<int>(tile[i]), expected) << i;
  }
}

TEST(BlockScale, puts_the_largest_magnitude_into_256_to_512) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> exponent(-110, 127);
  for (int i = 0; i < 20000; ++i) {
    const float largest = std::exp2(exponent(random)), scale = block_scale(largest);
    EXPECT_GE(largest / scale, 256.0f);
    EXPECT_LT(largest / scale, 512.0f);
    int unused;
    EXPECT_EQ(std::frexp(scale, &unused), 0.5f) << "not a power of two";
  }
  EXPECT_EQ(block_scale(0), 1.0f);
  EXPECT_EQ(block_scale(256), 1.0f);
  EXPECT_EQ(block_scale(512), 2.0f);
  EXPECT_EQ(block_scale(1e-44f), 0x1p-126f) << "never a subnormal scale";
}

} // namespace
} // namespace ductl::weights
