#include "weights/quantize.hpp"

#include "weights/float_types.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace ductl::weights {

namespace {

// How a quantised source keeps a number: magnitudes of IEEE-like formats order like their bit patterns, so the largest of
// a block is found in integers, and infinity and NaN are simply the largest of all.
struct Bf16Source {
  using Word = std::uint16_t;
  static constexpr Word kMagnitude = 0x7FFF, kInfinity = 0x7F80;
  static float value(Word bits) { return bf16_to_float(bits); }
};
struct F16Source {
  using Word = std::uint16_t;
  static constexpr Word kMagnitude = 0x7FFF, kInfinity = 0x7C00;
  static float value(Word bits) { return f16_to_float(bits); }
};
struct F32Source {
  using Word = std::uint32_t;
  static constexpr Word kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;
  static float value(Word bits) { return std::bit_cast<float>(bits); }
};

int blocks_of(int size) { return (size + kScaleBlock - 1) / kScaleBlock; }

template <class Source> typename Source::Word largest_of(const std::byte* data, int count) {
  using Word = typename Source::Word;
  Word largest = 0;
  for (int i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + sizeof(Word) * static_cast<std::size_t>(i), sizeof word);
    word = static_cast<Word>(word & Source::kMagnitude);
    largest = std::max(largest, word);
  }
  return largest;
}

template <class Source> Error locate_not_finite(const MatrixView& matrix, int row, int column) {
  const std::byte* data = matrix.data + sizeof(typename Source::Word) * (static_cast<std::size_t>(row) * matrix.columns);
  while (largest_of<Source>(data + sizeof(typename Source::Word) * static_cast<std::size_t>(column), 1) < Source::kInfinity)
    ++column;
  return not_finite_error(matrix, row, column);
}

template <class Source> Expected<std::vector<float>> quantised_scales(const MatrixView& matrix) {
  using Word = typename Source::Word;
  const int row_blocks = blocks_of(matrix.rows), column_blocks = blocks_of(matrix.columns);
  std::vector<float> scales(static_cast<std::size_t>(row_blocks) * static_cast<std::size_t>(column_blocks));
  std::vector<Word> largest(static_cast<std::size_t>(column_blocks));
  for (int row_block = 0; row_block < row_blocks; ++row_block) {
    std::fill(largest.begin(), largest.end(), Word{0});
    const int row_end = std::min(matrix.rows, (row_block + 1) * kScaleBlock);
    for (int row = row_block * kScaleBlock; row < row_end; ++row) {
      const std::byte* data =
          matrix.data + sizeof(Word) * (static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.columns));
      for (int block = 0; block < column_blocks; ++block) {
        const int column = block * kScaleBlock, count = std::min(kScaleBlock, matrix.columns - column);
        const Word found = largest_of<Source>(data + sizeof(Word) * static_cast<std::size_t>(column), count);
        if (found >= Source::kInfinity) return tl::unexpected<Error>(locate_not_finite<Source>(matrix, row, column));
        largest[static_cast<std::size_t>(block)] = std::max(largest[static_cast<std::size_t>(block)], found);
      }
    }
    for (int block = 0; block < column_blocks; ++block)
      scales[static_cast<std::size_t>(row_block * column_blocks + block)] =
          block_scale(Source::value(largest[static_cast<std::size_t>(block)]));
  }
  return scales;
}

Expected<std::vector<float>> copied_scales(const MatrixView& matrix) {
  const int column_blocks = blocks_of(matrix.columns);
  const std::size_t count = static_cast<std::size_t>(blocks_of(matrix.rows)) * static_cast<std::size_t>(column_blocks);
  if (matrix.scale == nullptr)
    return fail(ErrorCode::kCheckpointTensor, "fp8 tensor without block scales", matrix.name + "_scale_inv",
                "the checkpoint is incomplete; fetch it again");
  std::vector<float> scales(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (matrix.scale_type == DType::Bf16) {
      std::uint16_t bits;
      std::memcpy(&bits, matrix.scale + 2 * i, sizeof bits);
      scales[i] = bf16_to_float(bits);
    } else {
      std::memcpy(&scales[i], matrix.scale + 4 * i, sizeof(float));
    }
    if (!std::isfinite(scales[i])) {
      const int row = static_cast<int>(i) / column_blocks, column = static_cast<int>(i) % column_blocks;
      MatrixView scale_view = matrix;
      scale_view.name += "_scale_inv";
      return tl::unexpected<Error>(not_finite_error(scale_view, row, column));
    }
  }
  return scales;
}

} // namespace

Error not_finite_error(const MatrixView& matrix, int row, int column) {
  return Error{ErrorCode::kWeightNotFinite, "a weight is NaN or infinite", fmt::format("{}[{}][{}]", matrix.name, row, column),
               "the checkpoint is damaged, or is not what its config says; fetch it again"};
}

float block_scale(float largest_magnitude) {
  if (largest_magnitude == 0) return 1;
  int exponent = 0;
  std::frexp(largest_magnitude, &exponent); // largest in [2^(exponent-1), 2^exponent)
  return std::ldexp(1.0f, std::max(exponent - 9, -126));
}

Expected<std::vector<float>> block_scales(const MatrixView& matrix) {
  switch (matrix.type) {
  case DType::F8E4M3: return copied_scales(matrix);
  case DType::Bf16: return quantised_scales<Bf16Source>(matrix);
  case DType::F16: return quantised_scales<F16Source>(matrix);
  case DType::F32: return quantised_scales<F32Source>(matrix);
  default:
    return fail(ErrorCode::kCheckpointTensor, "weights of a type that cannot be packed", matrix.name,
                "supported are F8_E4M3 with block scales, BF16, F16 and F32");
  }
}

} // namespace ductl::weights
