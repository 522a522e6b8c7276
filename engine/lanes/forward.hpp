// One batch of tokens through the model: attention backend, router and FFN in turn, layer by layer, on one lane.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/moe/router.hpp"

namespace ductl::engine {

class Forward {
public:
  Forward(AttentionBackend& attention, Ffn& ffn, const Router& router, const weights::ModelConfig& config);
  // The largest batch that attention and FFN both take.
  [[nodiscard]] int tokens_max() const;
  // Runs `tokens` (1..tokens_max()) at the cache's end. Afterwards attention().logits(0, ...) and hidden(0, ...) give theirs. On
  // an error the cache is truncated to what it was: nothing is half done.
  [[nodiscard]] Expected<RoundTimes> run(KvCache& cache, std::span<const int> tokens);
  // The same for rows of the MTP layer (attention().drafts()): see AttentionBackend::begin_draft().
  [[nodiscard]] Expected<RoundTimes> run_draft(KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden);
  [[nodiscard]] AttentionBackend& attention();

private:
  [[nodiscard]] Expected<RoundTimes> run_layer(int layer, int tokens);

  AttentionBackend& attention_;
  Ffn& ffn_;
  const Router& router_;
  const weights::ModelConfig& config_;
  std::vector<float> sum_;
  std::vector<ExpertChoice> choices_;
  std::vector<std::span<const ExpertChoice>> choice_spans_;
};

} // namespace ductl::engine
