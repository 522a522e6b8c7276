#include "engine/lanes/speculation.hpp"

#include <cassert>

namespace ductl::engine {

Speculation::Speculation(Forward& forward, KvCache& cache, const weights::ModelConfig& config)
    : forward_(forward), cache_(cache), hidden_(std::size_t(config.hidden)) {
  assert(forward.attention().drafts() && cache.draft_length() == cache.length());
  waiting_.reserve(std::size_t(forward.tokens_max() + 1) * hidden_);
}

void Speculation::ran(int tokens) {
  const std::size_t before = waiting_.size();
  waiting_.resize(before + std::size_t(tokens) * hidden_);
  forward_.attention().hidden(0, 0, tokens, std::span(waiting_).subspan(before));
}

Expected<RoundTimes> Speculation::follow(std::span<const int> next_tokens) {
  assert(!next_tokens.empty() && int(next_tokens.size()) <= waiting());
  const std::size_t floats = next_tokens.size() * hidden_;
  auto times = forward_.run_draft(cache_, next_tokens, std::span(waiting_).first(floats));
  if (!times) return times;
  rows_ = int(next_tokens.size());
  waiting_.erase(waiting_.begin(), waiting_.begin() + std::ptrdiff_t(floats));
  return times;
}

void Speculation::logits(std::span<float> out) { forward_.attention().draft_logits(0, rows_ - 1, out); }

} // namespace ductl::engine
