// Multi-head latent attention of DeepSeek, always in the absorbed form (docs/models.md): the query goes through the key half
// of kv_b, attention runs over the cached latents, the result goes through its value half. Prefill too, so that a position
// has the same bits however it was computed.
#include "engine/attention/kernels/kernels.hpp"
#include "engine/model/indexer.hpp"
#include "engine/model/rope.hpp"

#include <algorithm>
#include <optional>

namespace ductl::engine {
namespace {

constexpr int kTokensPerPiece = 8, kRowsPerPiece = 64;

class MlaAttention final : public LayerAttention {
public:
  MlaAttention(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max)
      : config_(config),
        m_(config.mla),
        pool_(pool),
        attend_(pool, m_.kv_lora_rank + m_.rope_dim, m_.kv_lora_rank),
        scale_(attention_scale(config)),
        latent_floats_(m_.kv_lora_rank + m_.rope_dim),
        head_dims_(m_.nope_dim + m_.rope_dim),
        low_query_(std::size_t(tokens_max) * m_.q_lora_rank),
        query_(std::size_t(tokens_max) * config.heads * head_dims_),
        latent_(std::size_t(tokens_max) * latent_floats_),
        absorbed_(std::size_t(tokens_max) * config.heads * latent_floats_),
        attended_(std::size_t(tokens_max) * config.heads * m_.kv_lora_rank),
        value_(std::size_t(tokens_max) * config.heads * m_.v_dim),
        tasks_(std::size_t(config.heads)) {
    if (config.indexer.heads > 0) indexer_.emplace(config, pool, tokens_max);
  }

  void reserve(int capacity) override;
  void run(const LayerWeights& weights, const AttentionBatch& batch) override;

private:
  void project(const MlaWeights& w, const AttentionBatch& batch);
  void finish_token(const MlaWeights& w, const AttentionBatch& batch, int token);
  void absorb_head(const MlaWeights& w, const AttentionBatch& batch, int head);
  void attend(const AttentionBatch& batch);
  void attend_selected(const AttentionBatch& batch, int token);
  [[nodiscard]] AttendJob attend_job(const AttentionBatch& batch, int tokens);
  void expand(const MlaWeights& w, const AttentionBatch& batch);

  const weights::ModelConfig& config_;
  const weights::Mla& m_;
  ThreadPool& pool_;
  Attend attend_;
  float scale_;
  int latent_floats_, head_dims_; // of a cached row; of a head's query
  std::vector<float> low_query_;  // [tokens_max][q_lora_rank]
  std::vector<float> query_;      // [tokens_max][heads][head_dims_]
  std::vector<float> latent_;     // [tokens_max][latent_floats_]
  std::vector<float> absorbed_;   // [tokens_max][heads][latent_floats_]
  std::vector<float> attended_;   // [tokens_max][heads][kv_lora_rank]
  std::vector<float> value_;      // [tokens_max][heads][v_dim]
  std::vector<DenseTask> tasks_;  // one a head
  std::optional<Indexer> indexer_;
  std::vector<float> gathered_; // [topk][latent_floats_]
};

void MlaAttention::reserve(int capacity) {
  attend_.reserve(capacity);
  if (!indexer_) return;
  indexer_->reserve(capacity);
  if (capacity > config_.indexer.topk) gathered_.resize(std::size_t(config_.indexer.topk) * std::size_t(latent_floats_));
}

void MlaAttention::project(const MlaWeights& w, const AttentionBatch& batch) {
  const bool low_rank = w.query_a.rows > 0;
  const DenseMatrix& first = low_rank ? w.query_a : w.query_b;
  float* first_out = low_rank ? low_query_.data() : query_.data();
  DenseTask tasks[] = {{first, batch.tokens, batch.x, config_.hidden, first_out, first.rows},
                       {w.kv_a, batch.tokens, batch.x, config_.hidden, latent_.data(), latent_floats_}};
  run_products(pool_, tasks);
  if (!low_rank) return;
  for (int token = 0; token < batch.tokens; ++token) {
    float* low = low_query_.data() + std::ptrdiff_t(token) * m_.q_lora_rank;
    kernels().rms_norm(low, w.query_a_norm.data(), m_.q_lora_rank, float(config_.norm_eps), low);
  }
  run_product(pool_, w.query_b, batch.tokens, low_query_.data(), query_.data());
}

// Norm of the latent, rope of the shared key and of every head's query, and the cache's row.
void MlaAttention::finish_token(const MlaWeights& w, const AttentionBatch& batch, int token) {
  const auto angles = batch.angles.subspan(std::size_t(token) * m_.rope_dim, std::size_t(m_.rope_dim));
  float* latent = latent_.data() + std::ptrdiff_t(token) * latent_floats_;
  kernels().rms_norm(latent, w.kv_a_norm.data(), m_.kv_lora_rank, float(config_.norm_eps), latent);
  rotate_interleaved(angles, latent + m_.kv_lora_rank);
  std::copy_n(latent, latent_floats_, batch.cache->keys(batch.layer, 0) + std::ptrdiff_t(batch.start + token) * latent_floats_);
  for (int head = 0; head < config_.heads; ++head) {
    const std::ptrdiff_t index = std::ptrdiff_t(token) * config_.heads + head;
    float* rope = query_.data() + index * head_dims_ + m_.nope_dim;
    rotate_interleaved(angles, rope);
    float* absorbed = absorbed_.data() + index * latent_floats_;
    std::fill_n(absorbed, m_.kv_lora_rank, 0.0F);
    std::copy_n(rope, m_.rope_dim, absorbed + m_.kv_lora_rank);
  }
}

void MlaAttention::absorb_head(const MlaWeights& w, const AttentionBatch& batch, int head) {
  const DenseMatrix keys = rows_of(w.kv_b, head * (m_.nope_dim + m_.v_dim), m_.nope_dim);
  kernels().transposed({&keys, 0, keys.rows, batch.tokens, query_.data() + head * head_dims_,
                        std::ptrdiff_t(config_.heads) * head_dims_, absorbed_.data() + std::ptrdiff_t(head) * latent_floats_,
                        std::ptrdiff_t(config_.heads) * latent_floats_});
}

void MlaAttention::attend(const AttentionBatch& batch) {
  const int dense = indexer_ ? indexer_->dense_tokens(batch) : batch.tokens;
  if (dense > 0) attend_.run(attend_job(batch, dense));
  for (int token = dense; token < batch.tokens; ++token) attend_selected(batch, token);
}

// The selected rows, together and in the order of their positions, are a short dense context of their own.
void MlaAttention::attend_selected(const AttentionBatch& batch, int token) {
  const std::span<const int> selected = indexer_->select(batch, token);
  const float* rows = batch.cache->keys(batch.layer, 0);
  pool_.run(int(selected.size()), kRowsPerPiece, [&](int begin, int end, int) {
    for (int i = begin; i < end; ++i)
      std::copy_n(rows + std::ptrdiff_t(selected[std::size_t(i)]) * latent_floats_, latent_floats_,
                  gathered_.data() + std::ptrdiff_t(i) * latent_floats_);
  });
  AttendJob job = attend_job(batch, 1);
  const std::ptrdiff_t index = std::ptrdiff_t(token) * config_.heads;
  job.start = int(selected.size()) - 1;
  job.query += index * latent_floats_;
  job.out += index * m_.kv_lora_rank;
  job.keys = job.values = gathered_.data();
  attend_.run(job);
}

// The batch's first `tokens` over all that lies before each.
AttendJob MlaAttention::attend_job(const AttentionBatch& batch, int tokens) {
  AttendJob job;
  job.tokens = tokens;
  job.start = batch.start;
  job.heads = config_.heads;
  job.kv_heads = 1;
  job.key_dims = latent_floats_;
  job.value_dims = m_.kv_lora_rank;
  job.scale = scale_;
  job.query = absorbed_.data();
  job.out = attended_.data();
  job.keys = batch.cache->keys(batch.layer, 0);
  job.values = batch.cache->values(batch.layer, 0);
  job.row_floats = latent_floats_;
  return job;
}

void MlaAttention::expand(const MlaWeights& w, const AttentionBatch& batch) {
  for (int head = 0; head < config_.heads; ++head) {
    const DenseMatrix values = rows_of(w.kv_b, head * (m_.nope_dim + m_.v_dim) + m_.nope_dim, m_.v_dim);
    tasks_[std::size_t(head)] = {values,
                                 batch.tokens,
                                 attended_.data() + std::ptrdiff_t(head) * m_.kv_lora_rank,
                                 std::ptrdiff_t(config_.heads) * m_.kv_lora_rank,
                                 value_.data() + std::ptrdiff_t(head) * m_.v_dim,
                                 std::ptrdiff_t(config_.heads) * m_.v_dim};
  }
  run_products(pool_, tasks_);
}

void MlaAttention::run(const LayerWeights& weights, const AttentionBatch& batch) {
  const auto& w = std::get<MlaWeights>(weights.attention);
  project(w, batch);
  if (indexer_) indexer_->run(w.indexer, batch, low_query_.data());
  pool_.run(batch.tokens, kTokensPerPiece, [&](int begin, int end, int) {
    for (int token = begin; token < end; ++token) finish_token(w, batch, token);
  });
  pool_.run(config_.heads, 1, [&](int begin, int end, int) {
    for (int head = begin; head < end; ++head) absorb_head(w, batch, head);
  });
  attend(batch);
  expand(w, batch);
  run_product(pool_, w.output, batch.tokens, value_.data(), batch.out);
}

} // namespace

std::unique_ptr<LayerAttention> make_mla_attention(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max) {
  return std::make_unique<MlaAttention>(config, pool, tokens_max);
}

} // namespace ductl::engine
