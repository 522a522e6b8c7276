// Products with weight matrices in the checkpoint's own type, converted to float in registers.
//
// Every output element is one fixed chain of fused multiply-adds over its own inputs, so its bits depend neither on how
// many tokens or rows are computed together, nor on threads, nor on which implementation runs (scalar or AVX2).
// Elements convert exactly.
// Plain functions on plain memory: no allocation, no alignment asked for, nothing read beyond the arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ductl::engine {

enum class DenseType : std::uint8_t { F32, F16, Bf16, F8E4M3 };

inline constexpr std::int32_t kDenseScaleBlock = 128; // rows and columns that share a scale

// Rows of a matrix, row-major.
struct DenseMatrix {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scale =
      nullptr; // F8E4M3: [.., ceil(columns/128)] of float or bf16, for the matrix that first_row counts in
  DenseType type = DenseType::F32;
  bool scale_bf16 = false;
  std::int32_t rows = 0, columns = 0;
  std::int32_t first_row = 0; // where row 0 of this view lies in the whole matrix
  std::int32_t pitch = 0;     // elements from row to row; 0 = columns, no gaps
};

[[nodiscard]] constexpr std::ptrdiff_t row_pitch(const DenseMatrix& matrix) {
  return matrix.pitch == 0 ? matrix.columns : matrix.pitch;
}

// y[t * y_stride + r] = sum over c of W[r][c] * x[t * x_stride + c], for r in row_begin..row_end-1 and every token t.
// Order: lane l = c mod 8 adds its columns in ascending order from zero; then ((0+4)+(2+6)) + ((1+5)+(3+7)).
// F8E4M3: a lane adds the codes' values within 128 columns from zero, then lane = fma(scale, that sum, lane).
struct DenseProduct {
  const DenseMatrix* matrix = nullptr;
  std::int32_t row_begin = 0, row_end = 0;
  std::int32_t tokens = 0;
  const float* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  float* y = nullptr;
  std::ptrdiff_t y_stride = 0;
};

// y[t * y_stride + c] += W[r][c] * x[t * x_stride + r], one r after the other from row_begin to row_end-1, for every column.
// F8E4M3: W is the code's value times its scale in float, rounded once.
struct DenseTransposed {
  const DenseMatrix* matrix = nullptr;
  std::int32_t row_begin = 0, row_end = 0;
  std::int32_t tokens = 0;
  const float* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  float* y = nullptr;
  std::ptrdiff_t y_stride = 0;
};

void dense_product_scalar(const DenseProduct& job);
void dense_product_avx2(const DenseProduct& job);
void dense_transposed_scalar(const DenseTransposed& job);
void dense_transposed_avx2(const DenseTransposed& job);

} // namespace ductl::engine
