#include "engine/model/indexer.hpp"

#include "engine/attention/kernels/kernels.hpp"
#include "engine/model/rope.hpp"
#include "weights/e4m3.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ductl::engine {
namespace {

constexpr int kTokensPerPiece = 8, kPositionsPerPiece = 256;
constexpr double kKeyNormEps = 1e-6;

// y = (x - mean) / sqrt(variance + eps) * weight + bias, in place. Sums in double: a key has few dimensions.
void layer_norm(std::span<float> x, std::span<const float> weight, std::span<const float> bias) {
  double sum = 0, squares = 0;
  for (const float value : x) sum += value;
  const double mean = sum / double(x.size());
  for (const float value : x) squares += (value - mean) * (value - mean);
  const double inverse = 1 / std::sqrt(squares / double(x.size()) + kKeyNormEps);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::fma(float((x[i] - mean) * inverse), weight[i], bias[i]);
}

} // namespace

void best_positions(std::span<const float> scores, int count, std::span<float> scratch, std::vector<int>& out) {
  const auto number = [](float score) { return std::isnan(score) ? -INFINITY : score; };
  const auto all = scratch.first(scores.size());
  std::transform(scores.begin(), scores.end(), all.begin(), number);
  const auto last = all.begin() + (count - 1);
  std::nth_element(all.begin(), last, all.end(), std::greater<>());
  const float threshold = *last;
  auto equals = count - std::count_if(all.begin(), last, [&](float score) { return score > threshold; });
  out.clear();
  for (std::size_t position = 0; position < scores.size(); ++position) {
    const float score = number(scores[position]);
    if (score < threshold || (score == threshold && equals == 0)) continue;
    if (score == threshold) --equals;
    out.push_back(int(position));
  }
}

Indexer::Indexer(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max)
    : config_(config),
      i_(config.indexer),
      pool_(pool),
      key_(std::size_t(tokens_max) * i_.head_dim),
      query_(std::size_t(tokens_max) * i_.heads * i_.head_dim),
      head_weight_(std::size_t(tokens_max) * i_.heads),
      code_(std::size_t(tokens_max) * i_.head_dim),
      dots_(std::size_t(pool.threads()), std::vector<float>(std::size_t(i_.heads) * kPositionsPerPiece)),
      ones_(std::size_t(kPositionsPerPiece / kDenseScaleBlock) * ((i_.head_dim + kDenseScaleBlock - 1) / kDenseScaleBlock), 1) {}

void Indexer::reserve(int capacity) {
  if (score_.size() >= std::size_t(capacity)) return;
  score_.resize(std::size_t(capacity));
  scratch_.resize(std::size_t(capacity));
  selected_.reserve(std::size_t(std::min(i_.topk, capacity)));
}

int Indexer::dense_tokens(const AttentionBatch& batch) const { return std::clamp(i_.topk - batch.start, 0, batch.tokens); }

void Indexer::run(const IndexerWeights& weights, const AttentionBatch& batch, const float* low_query) {
  const int dense = dense_tokens(batch), sparse = batch.tokens - dense;
  const float* x = batch.x + std::ptrdiff_t(dense) * config_.hidden;
  const std::ptrdiff_t query_floats = std::ptrdiff_t(i_.heads) * i_.head_dim, rank = config_.mla.q_lora_rank;
  DenseTask tasks[] = {
      {weights.key, batch.tokens, batch.x, config_.hidden, key_.data(), i_.head_dim},
      {weights.query_b, sparse, low_query + dense * rank, rank, query_.data() + dense * query_floats, query_floats},
      {weights.head_weight, sparse, x, config_.hidden, head_weight_.data() + std::ptrdiff_t(dense) * i_.heads, i_.heads}};
  run_products(pool_, std::span(tasks).first(sparse > 0 ? 3 : 1));
  pool_.run(batch.tokens, kTokensPerPiece, [&](int begin, int end, int) {
    for (int token = begin; token < end; ++token) {
      finish_key(weights, batch, token);
      if (token >= dense) finish_query(batch, token);
    }
  });
}

// The first dimensions carry the position (in latent attention it is the last ones).
void Indexer::rotate(const AttentionBatch& batch, int token, float* x) const {
  const auto dims = std::size_t(config_.mla.rope_dim);
  const auto angles = batch.angles.subspan(std::size_t(token) * dims, dims);
  i_.interleaved_rope ? rotate_interleaved(angles, x) : rotate_half_split(angles, x);
}

void Indexer::finish_key(const IndexerWeights& weights, const AttentionBatch& batch, int token) {
  const auto dims = std::size_t(i_.head_dim);
  const auto key = std::span(key_).subspan(std::size_t(token) * dims, dims);
  layer_norm(key, weights.key_norm, weights.key_norm_bias);
  rotate(batch, token, key.data());
  const auto row = std::size_t(batch.start + token);
  if (batch.cache->index_key_type() == inventory::IndexKeys::F32) {
    std::copy(key.begin(), key.end(), batch.cache->index_keys(batch.layer) + row * dims);
    return;
  }
  hadamard(key);
  batch.cache->index_scales(batch.layer)[row] = quantise_e4m3(key, {batch.cache->index_codes(batch.layer) + row * dims, dims});
}

void Indexer::finish_query(const AttentionBatch& batch, int token) {
  const auto dims = std::size_t(i_.head_dim);
  const auto code = std::span(code_).subspan(std::size_t(token) * dims, dims);
  const float head_scale = float(1 / std::sqrt(double(i_.heads))) * float(1 / std::sqrt(double(i_.head_dim)));
  for (int head = 0; head < i_.heads; ++head) {
    const std::size_t index = std::size_t(token) * std::size_t(i_.heads) + std::size_t(head);
    const auto query = std::span(query_).subspan(index * dims, dims);
    rotate(batch, token, query.data());
    head_weight_[index] *= head_scale;
    if (batch.cache->index_key_type() == inventory::IndexKeys::F32) continue;
    hadamard(query);
    head_weight_[index] *= quantise_e4m3(query, code);
    std::transform(code.begin(), code.end(), query.begin(), weights::e4m3_value);
  }
}

void Indexer::score(const AttentionBatch& batch, int token, int begin, int end, int thread) {
  DenseMatrix keys;
  keys.rows = end - begin;
  keys.columns = i_.head_dim;
  const bool codes = batch.cache->index_key_type() == inventory::IndexKeys::Fp8;
  const std::size_t first = std::size_t(begin) * std::size_t(i_.head_dim);
  if (codes) {
    keys.type = DenseType::F8E4M3;
    keys.data = batch.cache->index_codes(batch.layer) + first;
    keys.scale = reinterpret_cast<const std::uint8_t*>(ones_.data());
  } else {
    keys.data = reinterpret_cast<const std::uint8_t*>(batch.cache->index_keys(batch.layer) + first);
  }
  std::vector<float>& dots = dots_[std::size_t(thread)];
  const float* query = query_.data() + std::ptrdiff_t(token) * i_.heads * i_.head_dim;
  kernels().product({&keys, 0, keys.rows, i_.heads, query, i_.head_dim, dots.data(), kPositionsPerPiece});
  float* score = score_.data() + begin;
  std::fill_n(score, keys.rows, 0.0F);
  for (int head = 0; head < i_.heads; ++head) {
    const float weight = head_weight_[std::size_t(token) * std::size_t(i_.heads) + std::size_t(head)];
    kernels().add_relu(dots.data() + std::ptrdiff_t(head) * kPositionsPerPiece, weight, keys.rows, score);
  }
  if (!codes) return;
  const float* scale = batch.cache->index_scales(batch.layer) + begin;
  for (int i = 0; i < keys.rows; ++i) score[i] *= scale[i];
}

std::span<const int> Indexer::select(const AttentionBatch& batch, int token) {
  const int positions = batch.start + token + 1;
  pool_.run((positions + kPositionsPerPiece - 1) / kPositionsPerPiece, 1, [&](int begin, int end, int thread) {
    for (int piece = begin; piece < end; ++piece)
      score(batch, token, piece * kPositionsPerPiece, std::min((piece + 1) * kPositionsPerPiece, positions), thread);
  });
  best_positions(std::span(score_).first(std::size_t(positions)), i_.topk, scratch_, selected_);
  return selected_;
}

} // namespace ductl::engine
