// What a tensor looks like from outside: element types and views into mapped files. No ownership, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::weights {

enum class DType { F32, F16, Bf16, F8E4M3, U8, I64, Other };
[[nodiscard]] std::size_t dtype_bytes(DType type); // 0 for Other
[[nodiscard]] std::string_view to_string(DType type);

struct TensorView {
  std::string name;
  DType type = DType::Other;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// A 2-d weight [rows, columns] row-major, with its 128x128 block scales when it is F8E4M3. `data` and `scale` are
// aligned to their element.
struct MatrixView {
  std::string name;
  DType type = DType::F32;
  int rows = 0, columns = 0;
  const std::byte* data = nullptr;
  const std::byte* scale = nullptr; // [ceil(rows/128), ceil(columns/128)] of F32 or Bf16; null unless F8E4M3
  DType scale_type = DType::F32;
};

// One element of a matrix as double, scale applied: the slow truth that tests and the packer's edges use.
[[nodiscard]] double matrix_element(const MatrixView& matrix, int row, int column);
// A row (columns floats) converted to float: bf16, f16 and f32 exactly, fp8 * scale in float with one rounding.
void matrix_row(const MatrixView& matrix, int row, std::span<float> out);

// One element, exactly. `bytes` need not be aligned; NaN codes give NaN.
[[nodiscard]] float element_value(DType type, const std::byte* bytes); // F32, F16, Bf16, F8E4M3

} // namespace ductl::weights
