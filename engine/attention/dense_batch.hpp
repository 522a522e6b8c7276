// Several matrix products at once over the pool's threads, cut by rows.
#pragma once

#include "engine/attention/kernels/dense.hpp"
#include "engine/attention/thread_pool.hpp"

#include <span>

namespace ductl::engine {

struct DenseTask {
  DenseMatrix matrix;
  int tokens = 0;
  const float* x = nullptr; // [tokens], x_stride floats apart
  std::ptrdiff_t x_stride = 0;
  float* y = nullptr; // [tokens][matrix.rows], y_stride floats apart
  std::ptrdiff_t y_stride = 0;
  int first_piece = 0, piece_rows = 0; // run_products()' own
};

// No task may read what another writes.
void run_products(ThreadPool& pool, std::span<DenseTask> tasks);

// One of them, rows without gaps on both sides.
void run_product(ThreadPool& pool, const DenseMatrix& matrix, int tokens, const float* x, float* y);

} // namespace ductl::engine
