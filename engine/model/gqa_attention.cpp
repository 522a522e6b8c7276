// Grouped-query attention of Llama and Qwen3: q, k, v; in Qwen3 a norm per head of q and k; half-split rope.
#include "engine/attention/kernels/kernels.hpp"
#include "engine/model/layer_attention.hpp"
#include "engine/model/rope.hpp"

#include <algorithm>

namespace ductl::engine {
namespace {

constexpr int kTokensPerPiece = 8;

class GqaAttention final : public LayerAttention {
public:
  GqaAttention(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max)
      : config_(config),
        pool_(pool),
        attend_(pool, config.head_dim, config.head_dim),
        scale_(attention_scale(config)),
        query_floats_(config.heads * config.head_dim),
        key_floats_(config.kv_heads * config.head_dim),
        query_(std::size_t(tokens_max) * query_floats_),
        key_(std::size_t(tokens_max) * key_floats_),
        value_(key_.size()),
        attended_(query_.size()) {}

  void reserve(int capacity) override { attend_.reserve(capacity); }
  void run(const LayerWeights& weights, const AttentionBatch& batch) override;

private:
  void finish_token(const GqaWeights& w, const AttentionBatch& batch, int token);
  void finish_head(const std::vector<float>& norm, std::span<const float> angles, float* x) const;

  const weights::ModelConfig& config_;
  ThreadPool& pool_;
  Attend attend_;
  float scale_;
  int query_floats_, key_floats_;
  std::vector<float> query_, key_, value_, attended_; // [tokens_max][..]
};

void GqaAttention::finish_head(const std::vector<float>& norm, std::span<const float> angles, float* x) const {
  if (!norm.empty()) kernels().rms_norm(x, norm.data(), config_.head_dim, float(config_.norm_eps), x);
  rotate_half_split(angles, x);
}

// Norms, rope, and the cache's rows.
void GqaAttention::finish_token(const GqaWeights& w, const AttentionBatch& batch, int token) {
  const int dims = config_.head_dim;
  const auto angles = batch.angles.subspan(std::size_t(token) * dims, std::size_t(dims));
  for (int head = 0; head < config_.heads; ++head)
    finish_head(w.query_norm, angles, query_.data() + std::ptrdiff_t(token) * query_floats_ + head * dims);
  for (int head = 0; head < config_.kv_heads; ++head) {
    const std::ptrdiff_t from = std::ptrdiff_t(token) * key_floats_ + head * dims,
                         row = std::ptrdiff_t(batch.start + token) * dims;
    finish_head(w.key_norm, angles, key_.data() + from);
    std::copy_n(key_.data() + from, dims, batch.cache->keys(batch.layer, head) + row);
    std::copy_n(value_.data() + from, dims, batch.cache->values(batch.layer, head) + row);
  }
}

void GqaAttention::run(const LayerWeights& weights, const AttentionBatch& batch) {
  const auto& w = std::get<GqaWeights>(weights.attention);
  DenseTask tasks[] = {{w.query, batch.tokens, batch.x, config_.hidden, query_.data(), query_floats_},
                       {w.key, batch.tokens, batch.x, config_.hidden, key_.data(), key_floats_},
                       {w.value, batch.tokens, batch.x, config_.hidden, value_.data(), key_floats_}};
  run_products(pool_, tasks);
  pool_.run(batch.tokens, kTokensPerPiece, [&](int begin, int end, int) {
    for (int token = begin; token < end; ++token) finish_token(w, batch, token);
  });
  AttendJob job;
  job.tokens = batch.tokens;
  job.start = batch.start;
  job.heads = config_.heads;
  job.kv_heads = config_.kv_heads;
  job.key_dims = job.value_dims = config_.head_dim;
  job.scale = scale_;
  job.query = query_.data();
  job.out = attended_.data();
  job.keys = batch.cache->keys(batch.layer, 0);
  job.values = batch.cache->values(batch.layer, 0);
  job.row_floats = config_.head_dim;
  job.head_floats = std::ptrdiff_t(batch.cache->capacity()) * config_.head_dim;
  attend_.run(job);
  run_product(pool_, w.output, batch.tokens, attended_.data(), batch.out);
}

} // namespace

std::unique_ptr<LayerAttention> make_gqa_attention(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max) {
  return std::make_unique<GqaAttention>(config, pool, tokens_max);
}

} // namespace ductl::engine
