#include "engine/attention/dense_batch.hpp"

#include "engine/attention/kernels/kernels.hpp"

#include <algorithm>

namespace ductl::engine {
namespace {

constexpr int kPieceRows = 48; // a multiple of both row tiles of the kernels
constexpr int kFewTokens = 3, kPieceRowsMax = 384;
constexpr std::int64_t kAloneMacs = 200'000; // below, waking another thread costs more than it saves

// Few tokens: a kernel fetches the rows behind those that it multiplies, for nothing at the end of a piece and too late at its
// begin. So pieces are long, but still several for each thread.
int piece_rows(const ThreadPool& pool, const DenseTask& task) {
  if (task.tokens > kFewTokens) return kPieceRows;
  const int share = task.matrix.rows / (4 * pool.threads()) / kPieceRows * kPieceRows;
  return std::clamp(share, kPieceRows, kPieceRowsMax);
}

} // namespace

void run_products(ThreadPool& pool, std::span<DenseTask> tasks) {
  int pieces = 0;
  std::int64_t macs = 0;
  for (DenseTask& task : tasks) {
    task.first_piece = pieces;
    task.piece_rows = piece_rows(pool, task);
    pieces += (task.matrix.rows + task.piece_rows - 1) / task.piece_rows;
    macs += std::int64_t(task.matrix.rows) * task.matrix.columns * task.tokens;
  }
  const auto product = kernels().product;
  pool.run(pieces, macs < kAloneMacs ? pieces : 1, [&](int begin, int end, int) {
    auto task =
        std::upper_bound(tasks.begin(), tasks.end(), begin, [](int piece, const DenseTask& t) { return piece < t.first_piece; });
    --task;
    for (int piece = begin; piece < end; ++piece) {
      while (task + 1 != tasks.end() && (task + 1)->first_piece <= piece) ++task;
      const int row = (piece - task->first_piece) * task->piece_rows;
      product({&task->matrix, row, std::min(row + task->piece_rows, task->matrix.rows), task->tokens, task->x, task->x_stride,
               task->y, task->y_stride});
    }
  });
}

void run_product(ThreadPool& pool, const DenseMatrix& matrix, int tokens, const float* x, float* y) {
  DenseTask task{matrix, tokens, x, matrix.columns, y, matrix.rows};
  run_products(pool, {&task, 1});
}

} // namespace ductl::engine
