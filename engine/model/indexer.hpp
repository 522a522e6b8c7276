// The lightning indexer of DeepSeek-V3.2 (report on V3.2-Exp, 2.1): which of the earlier positions a token attends to.
//
// A position's score is the sum over heads of weight * relu(query . key). Of the positions up to the token's own the topk of the
// largest scores are taken, the lower position of equals first; a token that sees no more than topk attends to all of them, and
// nothing is scored. Scores are one fixed chain a position (head after head), so the selection depends on nothing else.
#pragma once

#include "engine/model/layer_attention.hpp"

namespace ductl::engine {

// Positions of the `count` (1..scores.size()) largest scores, ascending; of equal ones the lower positions, NaN below all
// numbers. `scratch` has room for all scores.
void best_positions(std::span<const float> scores, int count, std::span<float> scratch, std::vector<int>& out);

class Indexer {
public:
  Indexer(const weights::ModelConfig& config, ThreadPool& pool, int tokens_max);
  void reserve(int capacity); // positions of the largest cache

  // Writes the batch's keys into the cache, and prepares the queries of those tokens that see more than topk positions.
  // low_query: [tokens][q_lora_rank], normed.
  void run(const IndexerWeights& weights, const AttentionBatch& batch, const float* low_query);
  // Tokens of the batch, from the first on, that attend to all that they see.
  [[nodiscard]] int dense_tokens(const AttentionBatch& batch) const;
  // The positions of a later token, ascending; topk of them. Valid until the next call.
  [[nodiscard]] std::span<const int> select(const AttentionBatch& batch, int token);

private:
  void finish_key(const IndexerWeights& weights, const AttentionBatch& batch, int token);
  void finish_query(const AttentionBatch& batch, int token);
  void rotate(const AttentionBatch& batch, int token, float* x) const;
  void score(const AttentionBatch& batch, int token, int begin, int end, int thread);

  const weights::ModelConfig& config_;
  const weights::Indexer& i_;
  ThreadPool& pool_;
  std::vector<float> key_;               // [tokens_max][head_dim]
  std::vector<float> query_;             // [tokens_max][heads][head_dim]
  std::vector<float> head_weight_;       // [tokens_max][heads]
  std::vector<std::uint8_t> code_;       // [tokens_max][head_dim], of a head at a time
  std::vector<float> score_, scratch_;   // [capacity]
  std::vector<std::vector<float>> dots_; // by thread: [heads][positions of a piece]
  std::vector<float> ones_;              // block scales of keys that have their own
  std::vector<int> selected_;
};

} // namespace ductl::engine
