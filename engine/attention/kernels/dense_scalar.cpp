// The definition of dense.hpp's order, one element at a time. What runs where there is no AVX2, and what the fast form is tested
// against.
#include "engine/attention/kernels/dense.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace ductl::engine {
namespace {

template <class T> T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

float from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(float(mantissa), -24);
  return sign * std::ldexp(float(1024 + mantissa), exponent - 25);
}

float from_e4m3(std::uint8_t code, float scale) {
  // Read as half, the code's value is 2^-8 of itself.
  const auto half = std::uint16_t(((code & 0x80) << 8) | ((code & 0x7f) << 7));
  return from_f16(half) * (scale * 256);
}

float block_scale(const DenseMatrix& w, int row, int column) {
  const std::ptrdiff_t across = (w.columns + kDenseScaleBlock - 1) / kDenseScaleBlock;
  const std::ptrdiff_t index = (w.first_row + row) / kDenseScaleBlock * across + column / kDenseScaleBlock;
  return w.scale_bf16 ? from_bf16(load<std::uint16_t>(w.scale + 2 * index)) : load<float>(w.scale + 4 * index);
}

float element(const DenseMatrix& w, int row, int column) {
  const std::ptrdiff_t index = row * row_pitch(w) + column;
  switch (w.type) {
  case DenseType::F32: return load<float>(w.data + 4 * index);
  case DenseType::F16: return from_f16(load<std::uint16_t>(w.data + 2 * index));
  case DenseType::Bf16: return from_bf16(load<std::uint16_t>(w.data + 2 * index));
  case DenseType::F8E4M3: break;
  }
  return from_e4m3(w.data[index], block_scale(w, row, column));
}

float dot(const DenseMatrix& w, int row, const float* x) {
  float lane[8] = {};
  const int padded = (w.columns + 7) / 8 * 8;
  for (int column = 0; column < padded; ++column) {
    const bool inside =
        column < w.columns; // the padding's products are zeros; added, so that -0 becomes what it becomes in registers
    const float weight = inside ? element(w, row, column) : 0;
    lane[column % 8] = std::fma(weight, inside ? x[column] : 0, lane[column % 8]);
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

} // namespace

void dense_product_scalar(const DenseProduct& job) {
  for (std::int32_t token = 0; token < job.tokens; ++token)
    for (std::int32_t row = job.row_begin; row < job.row_end; ++row)
      job.y[token * job.y_stride + row] = dot(*job.matrix, row, job.x + token * job.x_stride);
}

void dense_transposed_scalar(const DenseTransposed& job) {
  for (std::int32_t token = 0; token < job.tokens; ++token)
    for (std::int32_t row = job.row_begin; row < job.row_end; ++row)
      for (std::int32_t column = 0; column < job.matrix->columns; ++column) {
        float& sum = job.y[token * job.y_stride + column];
        sum = std::fma(element(*job.matrix, row, column), job.x[token * job.x_stride + row], sum);
      }
}

} // namespace ductl::engine
