#include "engine/lanes/forward.hpp"

#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace ductl::engine {
namespace {

constexpr int kLane = 0;

Expected<void> check_ids(std::span<const int> tokens, int vocab) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](int id) { return id < 0 || id >= vocab; });
  if (bad == tokens.end()) return {};
  return fail(ErrorCode::kRequestValue, fmt::format("token id {} does not exist: the model's vocabulary has {}", *bad, vocab), {},
              "give ids of this model's tokenizer");
}

Expected<void> check_room(std::span<const int> tokens, const KvCache& cache) {
  if (std::size_t(cache.capacity() - cache.length()) < tokens.size())
    return fail(ErrorCode::kContextLength,
                fmt::format("{} tokens behind {} do not fit in a context of {}", tokens.size(), cache.length(), cache.capacity()),
                {}, "shorten the conversation, or set a larger engine.context_length in the inventory");
  return {};
}

} // namespace

Forward::Forward(AttentionBackend& attention, Ffn& ffn, const Router& router, const weights::ModelConfig& config)
    : attention_(attention), ffn_(ffn), router_(router), config_(config) {
  const auto tokens = std::size_t(tokens_max());
  int choices = 1;
  for (int layer = 0; layer < weights::decoder_layers(config); ++layer) choices = std::max(choices, router.expert_choices(layer));
  sum_.resize(tokens * std::size_t(config.hidden));
  choices_.resize(tokens * std::size_t(choices));
  choice_spans_.resize(tokens);
}

int Forward::tokens_max() const { return std::min(attention_.tokens_max(), ffn_.tokens_max()); }

AttentionBackend& Forward::attention() { return attention_; }

Expected<RoundTimes> Forward::run(KvCache& cache, std::span<const int> tokens) {
  assert(!tokens.empty() && int(tokens.size()) <= tokens_max());
  if (auto checked = check_ids(tokens, config_.vocab); !checked) return tl::unexpected(checked.error());
  if (auto checked = check_room(tokens, cache); !checked) return tl::unexpected(checked.error());
  const int before = cache.length();
  RoundTimes total;
  attention_.begin(kLane, cache, tokens);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const auto times = run_layer(layer, int(tokens.size()));
    if (!times) {
      cache.truncate(before);
      return times;
    }
    total += *times;
  }
  return total;
}

Expected<RoundTimes> Forward::run_draft(KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden) {
  assert(attention_.drafts() && !next_tokens.empty() && int(next_tokens.size()) <= tokens_max());
  if (auto checked = check_ids(next_tokens, config_.vocab); !checked) return tl::unexpected(checked.error());
  const int before = cache.draft_length();
  attention_.begin_draft(kLane, cache, next_tokens, hidden);
  auto times = run_layer(config_.layers, int(next_tokens.size()));
  if (!times) cache.truncate_drafts(before);
  return times;
}

// Attention, router and FFN of one layer, and their sum in the residual.
Expected<RoundTimes> Forward::run_layer(int layer, int tokens) {
  const auto count = std::size_t(tokens);
  const auto sum = std::span(sum_).first(count * std::size_t(config_.hidden));
  attention_.launch(kLane, layer);
  const AttentionOutput output = attention_.take(kLane);
  const auto choices = std::size_t(router_.expert_choices(layer));
  const std::size_t experts = output.scores.size() / count;
  for (std::size_t t = 0; t < count; ++t) {
    const auto chosen = std::span(choices_).subspan(t * choices, choices);
    router_.route(layer, output.scores.subspan(t * experts, experts), chosen);
    choice_spans_[t] = chosen;
  }
  const FfnRequest request{layer, kLane, tokens, output.x, std::span(choice_spans_).first(count)};
  auto times = ffn_.start(request).and_then([&] { return ffn_.finish(kLane, sum); });
  if (times) attention_.absorb(kLane, sum);
  return times;
}

} // namespace ductl::engine
