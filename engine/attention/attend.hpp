// Causal attention of a batch's queries over cached rows: scores, softmax, weighted sum. Both families: latent attention is
// the case of one KV head for all query heads.
//
// Every score is one dense chain over the key's dimensions; the softmax sums by position mod 8; every output element adds
// its positions in ascending order. So a token's result does not depend on how tokens, heads and threads are grouped.
#pragma once

#include "engine/attention/thread_pool.hpp"

#include <cstddef>
#include <vector>

namespace ductl::engine {

struct AttendJob {
  int tokens = 0, start = 0; // token t sits at position start + t and sees 0 .. start + t
  int heads = 0, kv_heads = 0;
  int key_dims = 0, value_dims = 0;
  float scale = 1;               // of the scores
  const float* query = nullptr;  // [tokens][heads][key_dims]
  float* out = nullptr;          // [tokens][heads][value_dims]
  const float* keys = nullptr;   // [kv_heads][..][key_dims], rows row_floats apart
  const float* values = nullptr; // [kv_heads][..][value_dims], rows row_floats apart
  int row_floats = 0;
  std::ptrdiff_t head_floats = 0; // from KV head to KV head
};

class Attend {
public:
  Attend(ThreadPool& pool, int key_dims, int value_dims);
  void reserve(int capacity); // positions; before run() needs them
  void run(const AttendJob& job);

private:
  struct Scratch { // of one thread
    std::vector<float> query, scores, out;
  };
  struct Block { // query heads first_head.. of one KV head, for some tokens
    int first_head, heads, first_token, tokens;
  };
  void run_block(const AttendJob& job, const Block& block, Scratch& scratch);
  void weighted_sums(const AttendJob& job, const Block& block, Scratch& scratch);

  ThreadPool& pool_;
  [[maybe_unused]] int key_dims_, value_dims_; // what run() asserts
  int capacity_ = 0;
  std::vector<Scratch> scratch_;
};

} // namespace ductl::engine
