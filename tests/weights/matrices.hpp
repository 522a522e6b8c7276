// Matrices and experts in memory, for tests that need no checkpoint file.
#pragma once

#include "weights/float_types.hpp"
#include "weights/pack.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ductl::weights::test {

struct Matrix { // owns what the view shows
  MatrixView view;
  std::vector<std::byte> data;
  std::vector<float> scale;
};

inline std::size_t bytes_of(DType type) { return type == DType::F8E4M3 ? 1 : type == DType::F32 ? 4 : 2; }

inline Matrix make_matrix(std::string name, DType type, int rows, int columns) {
  Matrix matrix;
  matrix.data.resize(bytes_of(type) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  matrix.view = MatrixView{std::move(name), type, rows, columns, matrix.data.data(), nullptr, DType::F32};
  if (type == DType::F8E4M3) {
    const auto blocks = [](int size) { return static_cast<std::size_t>((size + 127) / 128); };
    matrix.scale.assign(blocks(rows) * blocks(columns), 1.0f);
    matrix.view.scale = reinterpret_cast<const std::byte*>(matrix.scale.data());
  }
  return matrix;
}

inline void set(Matrix& matrix, int row, int column, float value) {
  const std::size_t index =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.view.columns) + static_cast<std::size_t>(column);
  const std::uint16_t word = matrix.view.type == DType::Bf16 ? float_to_bf16(value) : float_to_f16(value);
  if (matrix.view.type == DType::F32)
    std::memcpy(&matrix.data[4 * index], &value, 4);
  else
    std::memcpy(&matrix.data[2 * index], &word, 2);
}

// Gaussian weights; fp8 ones are random finite codes of a gaussian-like spread with random block scales.
inline Matrix random_matrix(std::string name, DType type, int rows, int columns, float sigma, std::mt19937& random) {
  Matrix matrix = make_matrix(std::move(name), type, rows, columns);
  std::normal_distribution<float> gauss(0, sigma);
  if (type != DType::F8E4M3) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) set(matrix, r, c, gauss(random));
    return matrix;
  }
  std::uniform_int_distribution<int> code(0x20, 0x6F), sign(0, 1);
  std::uniform_real_distribution<float> scale(0.5f, 2.0f);
  for (std::byte& byte : matrix.data) byte = static_cast<std::byte>(code(random) | sign(random) << 7);
  for (float& value : matrix.scale) value = scale(random) * sigma / 16;
  return matrix;
}

struct Expert {
  Matrix gate, up, down;
  [[nodiscard]] ExpertWeights weights() const { return {gate.view, up.view, down.view}; }
};

inline Expert random_expert(DType type, int hidden, int channels, std::mt19937& random) {
  const float in = 1 / std::sqrt(static_cast<float>(hidden)), out = 1 / std::sqrt(static_cast<float>(channels));
  return Expert{random_matrix("gate", type, channels, hidden, in, random),
                random_matrix("up", type, channels, hidden, in, random),
                random_matrix("down", type, hidden, channels, out, random)};
}

} // namespace ductl::weights::test
