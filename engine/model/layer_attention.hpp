// The attention half of one layer for a batch: from normed hidden states to what is added to the residual. One class a
// kind of attention, with the scratch memory that it needs; one batch at a time.
#pragma once

#include "engine/attention/attend.hpp"
#include "engine/attention/dense_batch.hpp"
#include "engine/attention/kv_cache.hpp"
#include "engine/model/host_weights.hpp"

#include <memory>
#include <span>

namespace ductl::engine {

struct AttentionBatch {
  int layer = 0, tokens = 0;
  int start = 0;                 // position of the first token
  const float* x = nullptr;      // [tokens][hidden]
  std::span<const float> angles; // [tokens][rope dimensions], see RopeTable
  CpuKvCache* cache = nullptr;   // rows start .. start + tokens - 1 are written
  float* out = nullptr;          // [tokens][hidden]
};

class LayerAttention {
public:
  virtual ~LayerAttention() = default;
  virtual void reserve(int capacity) = 0; // positions of the largest cache
  virtual void run(const LayerWeights& weights, const AttentionBatch& batch) = 0;
};

[[nodiscard]] std::unique_ptr<LayerAttention> make_gqa_attention(const weights::ModelConfig& config, ThreadPool& pool,
                                                                 int tokens_max);
[[nodiscard]] std::unique_ptr<LayerAttention> make_mla_attention(const weights::ModelConfig& config, ThreadPool& pool,
                                                                 int tokens_max);

} // namespace ductl::engine
