// The form that slices replaced: an expert as three matrices, gate, up and down, each one stretch of tiles. Here only to be
// measured against; fp9, one token.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ductl::agent::test {

struct MatrixExpert {
  int hidden = 0, channels = 0;     // a multiple of 128, of 32
  const std::byte* tiles = nullptr; // gate | up | down; panels of 32 rows one after the other
  const float *gate_scale = nullptr, *up_scale = nullptr, *down_scale = nullptr; // [hidden / 128]; channels within one block
};

[[nodiscard]] std::size_t matrix_expert_bytes(int hidden, int channels); // of its tiles

// y[hidden] += round(down(silu(gate x) * up x) * down_scale * fixed_scale). `next`: what the next call begins with.
void matrix_forward(const MatrixExpert& expert, const float* x, float fixed_scale, std::int32_t* y, const std::byte* next);

} // namespace ductl::agent::test
