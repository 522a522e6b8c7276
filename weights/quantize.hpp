// Block scales: one float per 128x128 block of a whole matrix (blocks counted from row 0, column 0; short at the edges).
//
// fp8 sources keep theirs. For bf16, f16 and f32 sources the scale is the power of two that puts the block's largest
// magnitude into [256, 512); 1 for a block of zeros; never below 2^-126, so that it is a normal float.
#pragma once

#include "weights/checkpoint.hpp"
#include "weights/slice.hpp"

#include <vector>

namespace ductl::weights {

[[nodiscard]] float block_scale(float largest_magnitude);

// [ceil(rows/128) * ceil(columns/128)], row-major. Reads a quantised source whole, and refuses NaN and infinity in it
// (kWeightNotFinite: tensor, row, column); of an fp8 source only the scales are read.
[[nodiscard]] Expected<std::vector<float>> block_scales(const MatrixView& matrix);

// The refusal itself, so that it reads the same wherever it is found.
[[nodiscard]] Error not_finite_error(const MatrixView& matrix, int row, int column);

} // namespace ductl::weights
