#include "weights/tensor.hpp"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace ductl::weights {
namespace {

template <class T> float value_of(DType type, T bits) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, &bits, sizeof bits);
  return element_value(type, bytes);
}

TEST(Tensor, elements_of_each_type_have_the_value_that_their_format_says) {
  EXPECT_EQ(value_of(DType::F32, -1.25f), -1.25f);
  EXPECT_EQ(value_of(DType::Bf16, std::uint16_t{0x3FC0}), 1.5f);
  EXPECT_EQ(value_of(DType::F16, std::uint16_t{0xBE00}), -1.5f);
  EXPECT_EQ(value_of(DType::F16, std::uint16_t{0x0001}), std::ldexp(1.0f, -24)); // least subnormal
  EXPECT_EQ(value_of(DType::F16, std::uint16_t{0x7BFF}), 65504.0f);
  EXPECT_EQ(value_of(DType::F8E4M3, std::uint8_t{0x7E}), 448.0f);
  EXPECT_EQ(value_of(DType::F8E4M3, std::uint8_t{0x81}), -std::ldexp(1.0f, -9));
  EXPECT_TRUE(std::isnan(value_of(DType::F8E4M3, std::uint8_t{0xFF})));
}

// 130 x 257: two block rows, three block columns, the last ones short.
class Fp8Matrix : public testing::Test {
protected:
  Fp8Matrix() : data_(130 * 257) {
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::uint8_t>(i * 7 % 0x7F);
    view_ = {"w",
             DType::F8E4M3,
             130,
             257,
             reinterpret_cast<const std::byte*>(data_.data()),
             reinterpret_cast<const std::byte*>(scale_f32_),
             DType::F32};
  }
  std::vector<std::uint8_t> data_;
  const float scale_f32_[6] = {1, 2, 0.3f, 4, 5, 0.7f};
  const std::uint16_t scale_bf16_[6] = {0x3F80, 0x4000, 0x3E99, 0x4080, 0x40A0, 0x3F33};
  MatrixView view_;
};

TEST_F(Fp8Matrix, the_scale_of_an_element_is_that_of_its_128x128_block_also_in_short_edge_blocks) {
  const auto plain = [&](int row, int column) {
    return static_cast<double>(element_value(DType::F8E4M3, view_.data + row * 257 + column));
  };
  for (const auto& [row, column, block] :
       {std::tuple{0, 0, 0}, {127, 127, 0}, {0, 128, 1}, {5, 256, 2}, {128, 0, 3}, {129, 255, 4}, {129, 256, 5}}) {
    EXPECT_EQ(matrix_element(view_, row, column), plain(row, column) * static_cast<double>(scale_f32_[block]))
        << row << "," << column;
  }
}

TEST_F(Fp8Matrix, a_row_is_each_element_rounded_once_to_float_for_f32_and_bf16_scales) {
  for (const DType scale : {DType::F32, DType::Bf16}) {
    view_.scale_type = scale;
    view_.scale =
        scale == DType::F32 ? reinterpret_cast<const std::byte*>(scale_f32_) : reinterpret_cast<const std::byte*>(scale_bf16_);
    std::vector<float> row(257);
    for (int r : {0, 127, 128, 129}) {
      matrix_row(view_, r, row);
      for (int c = 0; c < 257; ++c)
        ASSERT_EQ(row[static_cast<std::size_t>(c)], static_cast<float>(matrix_element(view_, r, c))) << r << "," << c;
    }
  }
}

} // namespace
} // namespace ductl::weights
