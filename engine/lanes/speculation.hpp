// Speculative decoding with a model's own MTP layer (DeepSeek-V3 report, 2.2): guesses the token behind the one that was chosen
// last, so that the next batch can check the guess and, where it was right, yields two tokens.
//
// Row i of the MTP layer joins the hidden state of position i with the token at i + 1. Rows are run as soon as that token is
// known, every one of them, so that the layer's cache has no holes. Which token is emitted never depends on a guess: the
// target's own sample decides (docs/models.md).
#pragma once

#include "engine/lanes/forward.hpp"

namespace ductl::engine {

class Speculation {
public:
  // forward.attention().drafts(). `cache` has as many rows in the MTP layer as in the others. Both must outlive this.
  Speculation(Forward& forward, KvCache& cache, const weights::ModelConfig& config);

  // The main batch of `tokens` has run: its hidden states wait for the tokens behind them.
  void ran(int tokens);
  // The last token of that batch was taken back.
  void took_back() { waiting_.resize(waiting_.size() - hidden_); }
  [[nodiscard]] int waiting() const { return int(waiting_.size() / hidden_); }
  // Runs the oldest rows that wait; next_tokens are those behind them, at most waiting().
  [[nodiscard]] Expected<RoundTimes> follow(std::span<const int> next_tokens);
  // After follow(): what the last row foresees -> [vocab].
  void logits(std::span<float> out);

private:
  Forward& forward_;
  KvCache& cache_;
  std::size_t hidden_;
  int rows_ = 0;               // of the last follow()
  std::vector<float> waiting_; // [waiting()][hidden]
};

} // namespace ductl::engine
