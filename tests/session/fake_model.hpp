// A model without weights: a backend whose next token is a function of everything in the cache, FFNs that fail on command,
// and a tokenizer of given pieces.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/chat/chat_format.hpp"
#include "engine/moe/ffn.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace ductl::engine::test {

struct FakeCache final : KvCache {
  explicit FakeCache(int size) : capacity_(size) {}
  [[nodiscard]] int length() const override { return static_cast<int>(tokens.size()); }
  [[nodiscard]] int capacity() const override { return capacity_; }
  [[nodiscard]] int draft_length() const override { return static_cast<int>(next_tokens.size()); }
  void truncate(int length) override {
    tokens.resize(static_cast<std::size_t>(length));
    truncate_drafts(std::min(length, draft_length()));
  }
  void truncate_drafts(int length) override { next_tokens.resize(static_cast<std::size_t>(length)); }
  std::vector<int> tokens;
  std::vector<int> next_tokens; // of the MTP layer's rows

private:
  int capacity_;
};

struct FakeBackend final : AttentionBackend {
  FakeBackend(const weights::ModelConfig& config, int batch_max) : config_(config), batch_max_(batch_max) {}
  std::function<int(std::span<const int> history)> next = [](std::span<const int>) { return 1; };
  std::function<int(std::span<const int> history)> guess; // of the MTP layer, from all tokens up to the one just chosen
  std::vector<int> batches;                               // sizes, in order
  int caches_left = 100;                                  // make_cache fails after so many

  [[nodiscard]] int lanes() const override { return 1; }
  [[nodiscard]] bool drafts() const override { return guess != nullptr; }
  [[nodiscard]] int tokens_max() const override { return batch_max_; }
  [[nodiscard]] Expected<std::unique_ptr<KvCache>> make_cache(int capacity) override {
    if (caches_left-- <= 0) return fail(ErrorCode::kHostMemory, "no memory for the KV cache");
    return std::make_unique<FakeCache>(capacity);
  }
  void begin(int, KvCache& cache, std::span<const int> tokens) override {
    cache_ = static_cast<FakeCache*>(&cache);
    before_ = cache_->tokens.size();
    tokens_.assign(tokens.begin(), tokens.end());
    batches.push_back(static_cast<int>(tokens.size()));
    x_.assign(tokens.size() * static_cast<std::size_t>(config_.hidden), 0);
  }
  void launch(int, int layer) override {
    if (layer == config_.layers - 1) cache_->tokens.insert(cache_->tokens.end(), tokens_.begin(), tokens_.end());
    if (layer == config_.layers) cache_->next_tokens.insert(cache_->next_tokens.end(), tokens_.begin(), tokens_.end());
  }
  [[nodiscard]] bool ready(int) override { return true; }
  AttentionOutput take(int) override { return {x_, {}}; }
  void absorb(int, std::span<const float>) override {}
  void logits(int, int first, int count, std::span<float> out) override {
    const auto vocab = static_cast<std::size_t>(config_.vocab);
    std::fill(out.begin(), out.end(), 0.0f);
    for (int i = 0; i < count; ++i) {
      const auto history = std::span(cache_->tokens).first(before_ + static_cast<std::size_t>(first + i) + 1);
      out[static_cast<std::size_t>(i) * vocab + static_cast<std::size_t>(next(history))] = 10;
    }
  }
  // A hidden state says which position it is of: rows must reach the MTP layer in order.
  void hidden(int, int first, int count, std::span<float> out) override {
    for (int i = 0; i < count; ++i)
      out[static_cast<std::size_t>(i * config_.hidden)] = static_cast<float>(before_ + static_cast<std::size_t>(first + i));
  }
  void begin_draft(int, KvCache& cache, std::span<const int> next_tokens, std::span<const float> hidden) override {
    cache_ = static_cast<FakeCache*>(&cache);
    tokens_.assign(next_tokens.begin(), next_tokens.end());
    x_.assign(next_tokens.size() * static_cast<std::size_t>(config_.hidden), 0);
    for (std::size_t i = 0; i < next_tokens.size(); ++i) {
      const std::size_t position = cache_->next_tokens.size() + i;
      EXPECT_EQ(hidden[i * static_cast<std::size_t>(config_.hidden)], static_cast<float>(position));
    }
  }
  void draft_logits(int, int row, std::span<float> out) override {
    EXPECT_EQ(row, static_cast<int>(tokens_.size()) - 1);
    EXPECT_EQ(cache_->next_tokens.size(), cache_->tokens.size()); // no holes, nothing ahead
    for (std::size_t p = 0; p + 1 < cache_->tokens.size(); ++p) EXPECT_EQ(cache_->next_tokens[p], cache_->tokens[p + 1]) << p;
    std::vector<int> history = cache_->tokens;
    history.push_back(cache_->next_tokens.back());
    std::fill(out.begin(), out.end(), 0.0f);
    out[static_cast<std::size_t>(guess(history))] = 10;
  }

private:
  const weights::ModelConfig& config_;
  int batch_max_;
  FakeCache* cache_ = nullptr;
  std::size_t before_ = 0;
  std::vector<int> tokens_;
  std::vector<float> x_;
};

struct FakeFfn final : Ffn {
  int fails_at = -1; // the how-manieth start
  Error error{ErrorCode::kDuckDied, "duck03 is silent in layer 1", "duck duck03", "run `ductl up`", {}};
  int starts = 0;
  [[nodiscard]] int tokens_max() const override { return 1000; }
  [[nodiscard]] Expected<void> start(const FfnRequest&) override {
    if (starts++ == fails_at) return tl::unexpected(error);
    return {};
  }
  [[nodiscard]] Expected<RoundTimes> finish(int, std::span<float>) override { return RoundTimes{1, 20, 300, 4000, 50000}; }
};

struct FakeTokenizer final : Tokenizer {
  std::vector<std::string> pieces;
  int special = -1;
  [[nodiscard]] std::vector<int> encode(std::string_view, SpecialTokens) const override { return {}; }
  [[nodiscard]] std::string decode(std::span<const int> ids, bool) const override {
    std::string text;
    for (int id : ids) text += bytes(id);
    return text;
  }
  [[nodiscard]] std::string_view bytes(int id) const override { return pieces.at(static_cast<std::size_t>(id)); }
  [[nodiscard]] std::optional<int> id_of(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] bool is_special(int id) const override { return id == special; }
  [[nodiscard]] int size() const override { return static_cast<int>(pieces.size()); }
};

struct FakeChatFormat final : ChatFormat {
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] Expected<std::vector<int>> render(std::span<const ChatMessage>) const override { return std::vector<int>{1}; }
  [[nodiscard]] std::vector<int> stop_tokens() const override { return {}; }
};

inline weights::ModelConfig small_config() {
  weights::ModelConfig config;
  config.model_type = "llama";
  config.hidden = 32;
  config.layers = 2;
  config.vocab = 32;
  config.heads = config.kv_heads = 1;
  config.head_dim = 32;
  config.intermediate = 16;
  config.max_position = 4096;
  return config;
}

} // namespace ductl::engine::test
