// One generation on one session: prefill what is not cached, then token by token until something ends it.
#pragma once

#include "engine/lanes/speculation.hpp"
#include "engine/session/generator.hpp"
#include "engine/session/kept_sessions.hpp"
#include "engine/stop_matcher.hpp"
#include "engine/utf8_stream.hpp"
#include "inventory/clock.hpp"

namespace ductl::engine {

struct GenerationTools { // what does not change from one generation to the next
  Forward& forward;
  const Tokenizer& tokenizer;
  const weights::ModelConfig& config;
  bool speculate = false; // with the model's MTP layer
  int vocab = 0;          // rows of the head
  int vocab_used = 0;     // ids at or above are padding
};

class Generation {
public:
  // `stop_tokens`: the chat format's and the request's. All references must outlive it. Used once, on one thread.
  Generation(const GenerationTools& tools, Session& session, const GenerateRequest& request, const GenerateCallbacks& callbacks,
             int output_tokens_max);
  // Cancelling is no error (finish says so). After an error the session holds whole batches only.
  [[nodiscard]] Expected<GenerateResult> run();

private:
  enum class Step { Go, End };
  [[nodiscard]] bool cancelled() const { return callbacks_.cancelled && callbacks_.cancelled(); }
  [[nodiscard]] Expected<RoundTimes> forward(std::span<const int> tokens);
  [[nodiscard]] Expected<Step> prefill();
  [[nodiscard]] Expected<Step> decode();
  [[nodiscard]] Expected<void> follow(std::span<const int> next_tokens);
  [[nodiscard]] Expected<void> foresee();
  [[nodiscard]] Expected<void> run_batch();
  [[nodiscard]] std::span<float> row(int index) {
    const auto vocab = static_cast<std::size_t>(tools_.vocab);
    return std::span(logits_).subspan(static_cast<std::size_t>(index) * vocab, vocab);
  }
  [[nodiscard]] Step emit_next(std::span<float> logits, int draft = -1);
  [[nodiscard]] Step show(int token);
  void show_text(std::string_view text);
  void end(FinishReason reason);

  GenerationTools tools_;
  Session& session_;
  const GenerateRequest& request_;
  const GenerateCallbacks& callbacks_;
  int output_tokens_max_;
  Utf8Stream utf8_;
  StopMatcher stop_;
  std::vector<int> history_; // prompt and answer
  std::optional<Speculation> speculation_;
  std::vector<int> batch_;    // what is being decoded: the last token, and behind it the draft
  std::vector<float> logits_; // [2][vocab], of batch_ (in prefill, of the last token)
  GenerateResult result_;
  Instant started_, token_started_;
  RoundTimes rounds_; // since the last token
};

} // namespace ductl::engine
