#include "engine/attention/attend.hpp"

#include "engine/attention/kernels/kernels.hpp"

#include <algorithm>
#include <cassert>

namespace ductl::engine {
namespace {

constexpr int kQueriesMax = 16; // of a block: they share each key and value that comes from memory

// How a batch falls into blocks: large ones for the sake of memory, but enough of them for the threads.
struct Blocks {
  int heads, tokens; // of a block
  int per_group, per_batch;

  Blocks(const AttendJob& job, int threads) {
    const int group = job.heads / job.kv_heads;
    heads = std::min(group, kQueriesMax);
    tokens = std::clamp(kQueriesMax / heads, 1, job.tokens);
    count(job, group);
    while (total(job) < 2 * threads && (heads > 1 || tokens > 1)) {
      (tokens > 1 ? tokens : heads) = ((tokens > 1 ? tokens : heads) + 1) / 2;
      count(job, group);
    }
  }
  [[nodiscard]] int total(const AttendJob& job) const { return job.kv_heads * per_group * per_batch; }

private:
  void count(const AttendJob& job, int group) {
    per_group = (group + heads - 1) / heads;
    per_batch = (job.tokens + tokens - 1) / tokens;
  }
};

DenseMatrix cached_rows(const float* rows, int count, int columns, int pitch) {
  return {reinterpret_cast<const std::uint8_t*>(rows), nullptr, DenseType::F32, false, count, columns, 0, pitch};
}

} // namespace

Attend::Attend(ThreadPool& pool, int key_dims, int value_dims)
    : pool_(pool), key_dims_(key_dims), value_dims_(value_dims), scratch_(std::size_t(pool.threads())) {
  for (Scratch& scratch : scratch_) {
    scratch.query.resize(std::size_t(kQueriesMax) * key_dims);
    scratch.out.resize(std::size_t(kQueriesMax) * value_dims);
  }
}

void Attend::reserve(int capacity) {
  if (capacity <= capacity_) return;
  capacity_ = capacity;
  for (Scratch& scratch : scratch_) scratch.scores.resize(std::size_t(kQueriesMax) * capacity);
}

void Attend::run(const AttendJob& job) {
  assert(job.start + job.tokens <= capacity_ && job.key_dims == key_dims_ && job.value_dims == value_dims_);
  const Blocks blocks(job, pool_.threads());
  const int group = job.heads / job.kv_heads;
  pool_.run(blocks.total(job), 1, [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) {
      // The last tokens see the most positions: they come first, so that the threads end together.
      const int in_batch = blocks.per_batch - 1 - i / (job.kv_heads * blocks.per_group);
      const int in_group = i % blocks.per_group, kv_head = i / blocks.per_group % job.kv_heads;
      Block block{kv_head * group + in_group * blocks.heads, 0, in_batch * blocks.tokens, 0};
      block.heads = std::min(blocks.heads, group - in_group * blocks.heads);
      block.tokens = std::min(blocks.tokens, job.tokens - block.first_token);
      run_block(job, block, scratch_[std::size_t(thread)]);
    }
  });
}

void Attend::run_block(const AttendJob& job, const Block& block, Scratch& scratch) {
  const int queries = block.tokens * block.heads, positions = job.start + block.first_token + block.tokens;
  for (int t = 0; t < block.tokens; ++t) {
    const std::ptrdiff_t first = std::ptrdiff_t(block.first_token + t) * job.heads + block.first_head;
    std::copy_n(job.query + first * job.key_dims, block.heads * job.key_dims,
                scratch.query.data() + std::ptrdiff_t(t) * block.heads * job.key_dims);
  }
  const int kv_head = block.first_head / (job.heads / job.kv_heads);
  const DenseMatrix keys = cached_rows(job.keys + kv_head * job.head_floats, positions, job.key_dims, job.row_floats);
  kernels().product({&keys, 0, positions, queries, scratch.query.data(), job.key_dims, scratch.scores.data(), capacity_});
  weighted_sums(job, block, scratch);
}

void Attend::weighted_sums(const AttendJob& job, const Block& block, Scratch& scratch) {
  const auto softmax = kernels().softmax;
  const auto transposed = kernels().transposed;
  const int common = job.start + block.first_token + 1; // positions that all of the block's tokens see
  const int kv_head = block.first_head / (job.heads / job.kv_heads);
  const DenseMatrix values =
      cached_rows(job.values + kv_head * job.head_floats, common + block.tokens - 1, job.value_dims, job.row_floats);
  float inverse[kQueriesMax];
  for (int q = 0; q < block.tokens * block.heads; ++q)
    inverse[q] = softmax(scratch.scores.data() + std::ptrdiff_t(q) * capacity_, common + q / block.heads, job.scale);
  std::fill_n(scratch.out.data(), block.tokens * block.heads * job.value_dims, 0.0F);
  transposed(
      {&values, 0, common, block.tokens * block.heads, scratch.scores.data(), capacity_, scratch.out.data(), job.value_dims});
  for (int t = 0; t < block.tokens; ++t) {
    float* out = scratch.out.data() + std::ptrdiff_t(t) * block.heads * job.value_dims;
    const float* scores = scratch.scores.data() + std::ptrdiff_t(t) * block.heads * capacity_;
    if (t > 0) transposed({&values, common, common + t, block.heads, scores, capacity_, out, job.value_dims});
    float* to = job.out + (std::ptrdiff_t(block.first_token + t) * job.heads + block.first_head) * job.value_dims;
    for (int i = 0; i < block.heads * job.value_dims; ++i) to[i] = out[i] * inverse[t * block.heads + i / job.value_dims];
  }
}

} // namespace ductl::engine
