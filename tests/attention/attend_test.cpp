#include "engine/attention/attend.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

struct Shape {
  int heads, kv_heads, key_dims, value_dims, row_floats;
};
// Grouped, ungrouped, odd sizes, and latent (values are the keys' first floats; one KV head; more heads than a block holds).
constexpr Shape kShapes[] = {{9, 3, 64, 64, 64}, {4, 4, 16, 16, 16}, {6, 2, 10, 10, 10}, {20, 1, 40, 32, 40}};
constexpr int kPositions = 83;

struct Problem {
  Shape shape;
  std::vector<float> query, keys, values;

  explicit Problem(const Shape& s) : shape(s) {
    test::TinyRandom random(3);
    query = random.normals(std::size_t(kPositions) * s.heads * s.key_dims);
    keys = random.normals(std::size_t(s.kv_heads) * kPositions * s.row_floats);
    values = s.key_dims == s.value_dims ? random.normals(keys.size()) : keys;
  }

  // Tokens start .. start+tokens-1 of the sequence.
  void run(Attend& attend, int start, int tokens, std::vector<float>& out) const {
    AttendJob job;
    job.tokens = tokens;
    job.start = start;
    job.heads = shape.heads;
    job.kv_heads = shape.kv_heads;
    job.key_dims = shape.key_dims;
    job.value_dims = shape.value_dims;
    job.scale = 0.3F;
    job.query = query.data() + std::ptrdiff_t(start) * shape.heads * shape.key_dims;
    job.out = out.data() + std::ptrdiff_t(start) * shape.heads * shape.value_dims;
    job.keys = keys.data();
    job.values = values.data();
    job.row_floats = shape.row_floats;
    job.head_floats = std::ptrdiff_t(kPositions) * shape.row_floats;
    attend.run(job);
  }

  [[nodiscard]] std::vector<float> whole(int chunk, int threads) const {
    ThreadPool pool(threads);
    Attend attend(pool, shape.key_dims, shape.value_dims);
    attend.reserve(kPositions);
    std::vector<float> out(std::size_t(kPositions) * shape.heads * shape.value_dims);
    for (int start = 0; start < kPositions; start += chunk) run(attend, start, std::min(chunk, kPositions - start), out);
    return out;
  }

  [[nodiscard]] double exact(int token, int head, int dim) const {
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const float* q = query.data() + (std::ptrdiff_t(token) * shape.heads + head) * shape.key_dims;
    double sum = 0, weighted = 0;
    for (int p = 0; p <= token; ++p) {
      const std::ptrdiff_t row = (std::ptrdiff_t(kv_head) * kPositions + p) * shape.row_floats;
      double score = 0;
      for (int d = 0; d < shape.key_dims; ++d) score += double(q[d]) * keys[std::size_t(row + d)];
      sum += std::exp(0.3 * score);
      weighted += std::exp(0.3 * score) * values[std::size_t(row + dim)];
    }
    return weighted / sum;
  }
};

TEST(Attend, IsNearCausalAttentionInDouble) {
  for (const Shape& shape : kShapes) {
    const Problem problem(shape);
    const std::vector<float> out = problem.whole(kPositions, 2);
    for (const int token : {0, 1, 31, kPositions - 1})
      for (int head = 0; head < shape.heads; ++head)
        for (int dim = 0; dim < shape.value_dims; ++dim)
          ASSERT_NEAR(out[(std::size_t(token) * shape.heads + head) * shape.value_dims + dim], problem.exact(token, head, dim),
                      3e-6)
              << "heads " << shape.heads << " token " << token << " head " << head;
  }
}

TEST(Attend, BitsDependNeitherOnChunksNorOnThreads) {
  for (const Shape& shape : kShapes) {
    const Problem problem(shape);
    const std::vector<float> whole = problem.whole(kPositions, 1);
    for (const int chunk : {1, 7, 64})
      for (const int threads : {1, 2, 5})
        EXPECT_EQ(problem.whole(chunk, threads), whole) << shape.heads << " heads, chunk " << chunk;
  }
}

} // namespace
} // namespace ductl::engine
