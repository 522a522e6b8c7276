// One batch of tokens through the whole model: attention backend, router and FFN in turn, layer by layer, on one lane.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/moe/router.hpp"

namespace ductl::engine {

class Forward {
public:
  Forward(AttentionBackend& attention, Ffn& ffn, const Router& router, const weights::ModelConfig& config);
  // The largest batch that attention and FFN both take.
  [[nodiscard]] int tokens_max() const;
  // Runs `tokens` (1..tokens_max()) at the cache's end. Afterwards attention().logits(0, ...) gives their logits. On an error
  // the cache is truncated to what it was: nothing is half done.
  [[nodiscard]] Expected<RoundTimes> run(KvCache& cache, std::span<const int> tokens);
  [[nodiscard]] AttentionBackend& attention();

private:
  AttentionBackend& attention_;
  Ffn& ffn_;
  const Router& router_;
  const weights::ModelConfig& config_;
  std::vector<float> sum_;
  std::vector<ExpertChoice> choices_;
  std::vector<std::span<const ExpertChoice>> choice_spans_;
};

} // namespace ductl::engine
