#include "engine/attention/cpu_backend.hpp"

#include "engine/attention/kernels/kernels.hpp"
#include "engine/attention/lane_worker.hpp"
#include "engine/model/layer_attention.hpp"
#include "engine/model/rope.hpp"

#include <bit>
#include <cassert>
#include <fmt/format.h>
#include <optional>

namespace ductl::engine {
namespace {

using weights::ModelConfig;

// A lane's batch between begin() or begin_draft() and its logits.
struct Lane {
  CpuKvCache* cache = nullptr;
  int tokens = 0, start = 0, layer = 0;
  std::vector<float> residual; // [tokens_max][hidden]
  std::vector<float> normed;   // [tokens_max][hidden]
  std::vector<float> delta;    // [tokens_max][hidden]
  std::vector<float> angles;   // [tokens_max][rope dimensions]
  std::vector<float> scores;   // [tokens_max][experts]
  std::vector<float> joined;   // [tokens_max][2 * hidden], for the MTP layer only
};

int rope_dims(const ModelConfig& config) { return config.mla.kv_lora_rank > 0 ? config.mla.rope_dim : config.head_dim; }

class CpuBackend final : public AttentionBackend {
public:
  CpuBackend(const weights::Checkpoint& checkpoint, const CpuBackendOptions& options);
  Expected<void> load(const weights::Checkpoint& checkpoint);

  [[nodiscard]] int lanes() const override { return int(lanes_.size()); }
  [[nodiscard]] bool drafts() const override { return weights_.mtp.has_value(); }
  [[nodiscard]] int tokens_max() const override { return tokens_max_; }
  [[nodiscard]] Expected<std::unique_ptr<KvCache>> make_cache(int capacity) override;
  void begin(int lane, KvCache& cache, std::span<const int> tokens) override;
  void launch(int lane, int layer) override;
  [[nodiscard]] bool ready(int lane) override { return !worker_ || worker_->done(lane); }
  AttentionOutput take(int lane) override;
  void absorb(int lane, std::span<const float> sum) override;
  void logits(int lane, int first, int count, std::span<float> out) override;
  void hidden(int lane, int first, int count, std::span<float> out) override;
  void begin_draft(int lane, KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden) override;
  void draft_logits(int lane, int row, std::span<float> out) override;

private:
  [[nodiscard]] std::size_t floats(int tokens) const { return std::size_t(tokens) * std::size_t(config_.hidden); }
  void wait(int lane) {
    if (worker_) worker_->wait(lane);
  }
  Lane& open(int lane, KvCache& cache, int start, std::span<const int> tokens);
  void attend(Lane& lane);
  void norm_rows(const std::vector<float>& weight, const float* rows, int count, float* out);

  const ModelConfig& config_;
  int tokens_max_;
  inventory::IndexKeys index_keys_;
  ThreadPool pool_;
  RopeTable rope_;
  HostWeights weights_;
  std::unique_ptr<LayerAttention> attention_; // its scratch belongs to whoever runs attend(): the worker, or the caller
  std::vector<Lane> lanes_;
  std::optional<LaneWorker> worker_; // only with several lanes: one has nothing to overlap with
};

CpuBackend::CpuBackend(const weights::Checkpoint& checkpoint, const CpuBackendOptions& options)
    : config_(checkpoint.config()),
      tokens_max_(options.tokens_max),
      index_keys_(options.index_keys),
      pool_(options.threads),
      rope_(config_.rope, rope_dims(config_)),
      lanes_(std::size_t(options.lanes)) {
  for (Lane& lane : lanes_) {
    lane.residual.resize(floats(tokens_max_));
    lane.normed.resize(floats(tokens_max_));
    lane.delta.resize(floats(tokens_max_));
    lane.angles.resize(std::size_t(tokens_max_) * rope_dims(config_));
    lane.scores.resize(std::size_t(tokens_max_) * config_.moe.experts);
    if (config_.mtp_layers > 0) lane.joined.resize(2 * floats(tokens_max_));
  }
  attention_ = config_.mla.kv_lora_rank > 0 ? make_mla_attention(config_, pool_, tokens_max_)
                                            : make_gqa_attention(config_, pool_, tokens_max_);
  if (options.lanes > 1) worker_.emplace(options.lanes, [this](int lane) { attend(lanes_[std::size_t(lane)]); });
}

Expected<void> CpuBackend::load(const weights::Checkpoint& checkpoint) {
  auto loaded = load_host_weights(checkpoint);
  if (!loaded) return tl::unexpected(loaded.error());
  weights_ = std::move(*loaded);
  return check_finite(weights_.matrices, pool_);
}

Expected<std::unique_ptr<KvCache>> CpuBackend::make_cache(int capacity) {
  auto cache = CpuKvCache::make(config_, capacity, index_keys_);
  if (!cache) return tl::unexpected(cache.error());
  for (int lane = 0; lane < lanes(); ++lane) wait(lane); // reserve() changes memory that attend() uses
  attention_->reserve(capacity);
  return std::move(*cache);
}

// A new batch: embeddings in the residual, and the angles of its positions.
Lane& CpuBackend::open(int lane_index, KvCache& cache, int start, std::span<const int> tokens) {
  wait(lane_index); // of a batch that was given up
  Lane& lane = lanes_[std::size_t(lane_index)];
  lane.cache = static_cast<CpuKvCache*>(&cache); // this backend makes no others
  lane.tokens = int(tokens.size());
  lane.start = start;
  assert(lane.tokens >= 1 && lane.tokens <= tokens_max_ && lane.start + lane.tokens <= cache.capacity());
  const auto dims = std::size_t(rope_dims(config_));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    weights::matrix_row(weights_.embedding, tokens[t], std::span(lane.residual).subspan(floats(int(t)), floats(1)));
    rope_.angles(lane.start + int(t), std::span(lane.angles).subspan(t * dims, dims));
  }
  return lane;
}

void CpuBackend::begin(int lane, KvCache& cache, std::span<const int> tokens) { open(lane, cache, cache.length(), tokens); }

// The embedding comes first in what is joined, as in the checkpoints (the paper writes the hidden state first).
void CpuBackend::begin_draft(int lane_index, KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden) {
  Lane& lane = open(lane_index, cache, cache.draft_length(), next_tokens);
  assert(weights_.mtp && hidden.size() == floats(lane.tokens) && lane.start + lane.tokens <= cache.length());
  const MtpWeights& w = *weights_.mtp;
  const auto eps = float(config_.norm_eps);
  for (int row = 0; row < lane.tokens; ++row) {
    float* joined = lane.joined.data() + 2 * floats(row);
    kernels().rms_norm(lane.residual.data() + floats(row), w.embedding_norm.data(), config_.hidden, eps, joined);
    kernels().rms_norm(hidden.data() + floats(row), w.hidden_norm.data(), config_.hidden, eps, joined + config_.hidden);
  }
  run_product(pool_, w.projection, lane.tokens, lane.joined.data(), lane.residual.data());
}

void CpuBackend::launch(int lane_index, int layer) {
  wait(lane_index);
  Lane& lane = lanes_[std::size_t(lane_index)];
  lane.layer = layer;
  if (layer == config_.layers - 1) lane.cache->grow(lane.tokens);
  if (layer == config_.layers) lane.cache->grow_drafts(lane.tokens);
  if (worker_)
    worker_->submit(lane_index);
  else
    attend(lane);
}

void CpuBackend::norm_rows(const std::vector<float>& weight, const float* rows, int count, float* out) {
  constexpr int kRowsPerPiece = 16;
  pool_.run(count, kRowsPerPiece, [&](int begin, int end, int) {
    for (int row = begin; row < end; ++row)
      kernels().rms_norm(rows + floats(row), weight.data(), config_.hidden, float(config_.norm_eps), out + floats(row));
  });
}

// One layer's attention half, from the residual to what the FFN and the router need.
void CpuBackend::attend(Lane& lane) {
  const LayerWeights& w = weights_.layers[std::size_t(lane.layer)];
  norm_rows(w.input_norm, lane.residual.data(), lane.tokens, lane.normed.data());
  attention_->run(w, {lane.layer, lane.tokens, lane.start, lane.normed.data(), lane.angles, lane.cache, lane.delta.data()});
  for (std::size_t i = 0; i < floats(lane.tokens); ++i) lane.residual[i] += lane.delta[i];
  norm_rows(w.ffn_norm, lane.residual.data(), lane.tokens, lane.normed.data());
  if (w.router.rows > 0) run_product(pool_, w.router, lane.tokens, lane.normed.data(), lane.scores.data());
}

AttentionOutput CpuBackend::take(int lane_index) {
  wait(lane_index);
  const Lane& lane = lanes_[std::size_t(lane_index)];
  const int experts = weights_.layers[std::size_t(lane.layer)].router.rows;
  return {std::span(lane.normed).first(floats(lane.tokens)), std::span(lane.scores).first(std::size_t(lane.tokens) * experts)};
}

void CpuBackend::absorb(int lane_index, std::span<const float> sum) {
  Lane& lane = lanes_[std::size_t(lane_index)];
  assert(sum.size() == floats(lane.tokens));
  for (std::size_t i = 0; i < sum.size(); ++i) lane.residual[i] += sum[i];
}

void CpuBackend::logits(int lane_index, int first, int count, std::span<float> out) {
  wait(lane_index);
  Lane& lane = lanes_[std::size_t(lane_index)];
  assert(first >= 0 && first + count <= lane.tokens && out.size() >= std::size_t(count) * config_.vocab);
  norm_rows(weights_.final_norm, lane.residual.data() + floats(first), count, lane.normed.data());
  run_product(pool_, weights_.head, count, lane.normed.data(), out.data());
}

void CpuBackend::hidden(int lane_index, int first, int count, std::span<float> out) {
  wait(lane_index);
  const Lane& lane = lanes_[std::size_t(lane_index)];
  assert(first >= 0 && first + count <= lane.tokens && out.size() >= floats(count));
  norm_rows(weights_.final_norm, lane.residual.data() + floats(first), count, out.data());
}

void CpuBackend::draft_logits(int lane_index, int row, std::span<float> out) {
  wait(lane_index);
  Lane& lane = lanes_[std::size_t(lane_index)];
  assert(row >= 0 && row < lane.tokens && out.size() >= std::size_t(config_.vocab));
  norm_rows(weights_.mtp->head_norm, lane.residual.data() + floats(row), 1, lane.normed.data());
  run_product(pool_, weights_.head, 1, lane.normed.data(), out.data());
}

} // namespace

Expected<std::unique_ptr<AttentionBackend>> make_cpu_backend(const weights::Checkpoint& checkpoint,
                                                             const CpuBackendOptions& options) {
  if (options.lanes < 1 || options.tokens_max < 1 || options.threads < 0)
    return fail(ErrorCode::kInternal, fmt::format("a CPU backend of {} lanes, {} tokens a batch and {} threads is impossible",
                                                  options.lanes, options.tokens_max, options.threads));
  const weights::Indexer& indexer = checkpoint.config().indexer;
  if (options.index_keys == inventory::IndexKeys::Fp8 && indexer.heads > 0 && !std::has_single_bit(unsigned(indexer.head_dim)))
    return fail(ErrorCode::kModelUnsupported,
                fmt::format("index_head_dim is {}, and only a power of two can be rotated for fp8 keys", indexer.head_dim),
                "config.json", "set engine.index_keys to \"f32\"");
  auto backend = std::make_unique<CpuBackend>(checkpoint, options);
  if (auto loaded = backend->load(checkpoint); !loaded) return tl::unexpected(loaded.error());
  return backend;
}

} // namespace ductl::engine
