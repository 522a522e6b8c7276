#include "weights/tensor.hpp"

#include "weights/e4m3.hpp"
#include "weights/float_types.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace ductl::weights {
namespace {

constexpr int kBlock = 128; // rows and columns that share a scale

int scale_columns(const MatrixView& matrix) { return (matrix.columns + kBlock - 1) / kBlock; }

float scale_value(const MatrixView& matrix, int block_row, int block_column) {
  const std::size_t index = static_cast<std::size_t>(block_row) * static_cast<std::size_t>(scale_columns(matrix)) +
                            static_cast<std::size_t>(block_column);
  return element_value(matrix.scale_type, matrix.scale + index * dtype_bytes(matrix.scale_type));
}

} // namespace

std::size_t dtype_bytes(DType type) {
  switch (type) {
  case DType::F32: return 4;
  case DType::F16:
  case DType::Bf16: return 2;
  case DType::F8E4M3:
  case DType::U8: return 1;
  case DType::I64: return 8;
  case DType::Other: break;
  }
  return 0;
}

std::string_view to_string(DType type) {
  switch (type) {
  case DType::F32: return "F32";
  case DType::F16: return "F16";
  case DType::Bf16: return "BF16";
  case DType::F8E4M3: return "F8_E4M3";
  case DType::U8: return "U8";
  case DType::I64: return "I64";
  case DType::Other: break;
  }
  return "another type";
}

float element_value(DType type, const std::byte* bytes) {
  switch (type) {
  case DType::F32: {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  case DType::F16:
  case DType::Bf16: {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return type == DType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  case DType::F8E4M3: return e4m3_value(std::to_integer<std::uint8_t>(*bytes));
  case DType::U8:
  case DType::I64:
  case DType::Other: break;
  }
  assert(false && "element_value: not a weight type");
  return 0;
}

double matrix_element(const MatrixView& matrix, int row, int column) {
  assert(row >= 0 && row < matrix.rows && column >= 0 && column < matrix.columns);
  const std::size_t index =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.columns) + static_cast<std::size_t>(column);
  const double value = element_value(matrix.type, matrix.data + index * dtype_bytes(matrix.type));
  if (matrix.type != DType::F8E4M3) return value;
  return value * static_cast<double>(scale_value(matrix, row / kBlock, column / kBlock));
}

void matrix_row(const MatrixView& matrix, int row, std::span<float> out) {
  assert(row >= 0 && row < matrix.rows && out.size() == static_cast<std::size_t>(matrix.columns));
  const std::size_t width = dtype_bytes(matrix.type);
  const std::byte* in = matrix.data + static_cast<std::size_t>(row) * out.size() * width;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = element_value(matrix.type, in + i * width);
  if (matrix.type != DType::F8E4M3) return;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const float scale = scale_value(matrix, row / kBlock, static_cast<int>(begin / kBlock));
    const std::size_t end = std::min(out.size(), begin + kBlock);
    for (std::size_t i = begin; i < end; ++i) out[i] *= scale;
  }
}

} // namespace ductl::weights
