// The definition of dense.hpp's order, one element at a time. What runs where there is no AVX2, and what the fast form is tested
// against.
#include "engine/attention/kernels/dense.hpp"

#include <algorithm>
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

// Read as half, the code's value is 2^-8 of itself; the scale makes up for it.
float from_e4m3(std::uint8_t code) { return from_f16(std::uint16_t(((code & 0x80) << 8) | ((code & 0x7f) << 7))); }

float scale_of(const DenseMatrix& w, int row, int column) {
  const std::ptrdiff_t across = (w.columns + kDenseScaleBlock - 1) / kDenseScaleBlock;
  const std::ptrdiff_t index = (w.first_row + row) / kDenseScaleBlock * across + column / kDenseScaleBlock;
  return 256 * (w.scale_bf16 ? from_bf16(load<std::uint16_t>(w.scale + 2 * index)) : load<float>(w.scale + 4 * index));
}

// Without its scale.
float element(const DenseMatrix& w, int row, int column) {
  const std::ptrdiff_t index = row * row_pitch(w) + column;
  switch (w.type) {
  case DenseType::F32: return load<float>(w.data + 4 * index);
  case DenseType::F16: return from_f16(load<std::uint16_t>(w.data + 2 * index));
  case DenseType::Bf16: return from_bf16(load<std::uint16_t>(w.data + 2 * index));
  case DenseType::F8E4M3: break;
  }
  return from_e4m3(w.data[index]);
}

// lane[] goes on by the columns from..end-1. Missing ones up to a multiple of eight are zeros; their products are added, so that
// -0 becomes what it becomes in registers.
void add_columns(const DenseMatrix& w, int row, int from, int end, const float* x, float* lane) {
  for (int column = from; column < (end + 7) / 8 * 8; ++column) {
    const bool inside = column < end;
    const float weight = inside ? element(w, row, column) : 0;
    lane[column % 8] = std::fma(weight, inside ? x[column] : 0, lane[column % 8]);
  }
}

float dot(const DenseMatrix& w, int row, const float* x) {
  float lane[8] = {};
  if (w.type != DenseType::F8E4M3) add_columns(w, row, 0, w.columns, x, lane);
  for (int from = 0; from < w.columns && w.type == DenseType::F8E4M3; from += kDenseScaleBlock) {
    float sum[8] = {};
    add_columns(w, row, from, std::min(from + kDenseScaleBlock, w.columns), x, sum);
    for (int l = 0; l < 8; ++l) lane[l] = std::fma(scale_of(w, row, from), sum[l], lane[l]);
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
        const float scale = job.matrix->type == DenseType::F8E4M3 ? scale_of(*job.matrix, row, column) : 1;
        sum = std::fma(element(*job.matrix, row, column) * scale, job.x[token * job.x_stride + row], sum);
      }
}

} // namespace ductl::engine
