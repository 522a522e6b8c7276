// A generator that says what a test wants, one request at a time like the real one.
#pragma once

#include "engine/session/generator.hpp"
#include "tests/tokenizer/tiny_tokenizer.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ductl::engine {

class FakeGenerator final : public Generator {
public:
  // Runs on the request's own thread; may block. Says things through the callbacks.
  using Script = std::function<Expected<GenerateResult>(const GenerateRequest&, const GenerateCallbacks&)>;

  FakeGenerator() : tokenizer_(TinyTokenizer{.special = {"<|im_start|>", "<|im_end|>"}}.make()) {
    weights::ModelConfig config;
    config.family = weights::Family::Llama;
    chat_format_ = std::move(choose_chat_format(config, *tokenizer_).value());
  }

  Expected<GenerateResult> generate(const GenerateRequest& request, const GenerateCallbacks& callbacks) override {
    ++entered;
    std::unique_lock turn(turn_, std::defer_lock);
    while (!turn.try_lock_for(std::chrono::milliseconds(10))) {
      if (!callbacks.cancelled()) continue;
      ++cancelled;
      return GenerateResult{.finish = FinishReason::Cancelled, .tokens = {}, .text = {}, .stats = {}};
    }
    Expected<GenerateResult> result = script(request, callbacks);
    if (result && result->finish == FinishReason::Cancelled) ++cancelled;
    return result;
  }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ChatFormat& chat_format() const override { return *chat_format_; }
  std::string model_name() const override { return "org/fake"; }
  ContextRoom context() const override { return {512, 1024}; }
  std::optional<Error> broken() const override {
    const std::lock_guard lock(broken_mutex_);
    return broken_;
  }
  void set_broken(std::optional<Error> error) {
    const std::lock_guard lock(broken_mutex_);
    broken_ = std::move(error);
  }

  // Says the pieces, then ends.
  static Script says(std::vector<std::string> pieces, FinishReason finish = FinishReason::Stop) {
    return [pieces, finish](const GenerateRequest& request, const GenerateCallbacks& callbacks) -> Expected<GenerateResult> {
      GenerateResult result;
      result.finish = finish;
      for (const std::string& piece : pieces) {
        result.text += piece;
        callbacks.on_text(piece);
      }
      result.stats.input_tokens = static_cast<int>(request.prompt.size());
      result.stats.cached_tokens = 3;
      result.stats.output_tokens = static_cast<int>(pieces.size());
      result.stats.total_s = 1;
      if (request.token_times) result.stats.tokens.push_back({.position = 1, .token = 2, .total_ns = 3, .rounds = {}});
      return result;
    };
  }

  // Says the piece, then waits until it is cancelled.
  static Script never_ends(std::string piece) {
    return [piece = std::move(piece)](const GenerateRequest&, const GenerateCallbacks& callbacks) -> Expected<GenerateResult> {
      if (!piece.empty()) callbacks.on_text(piece);
      while (!callbacks.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // a token's time
      return GenerateResult{.finish = FinishReason::Cancelled, .tokens = {}, .text = {}, .stats = {}};
    };
  }

  Script script = says({"Hello", ", ", "world"});
  std::atomic<int> entered{0}, cancelled{0};

private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatFormat> chat_format_;
  std::timed_mutex turn_;
  mutable std::mutex broken_mutex_;
  std::optional<Error> broken_;
};

} // namespace ductl::engine
