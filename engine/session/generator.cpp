#include "engine/session/generator.hpp"

#include "engine/session/context_length.hpp"
#include "engine/session/generation.hpp"
#include "engine/session/request_queue.hpp"
#include "weights/context_length.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <spdlog/spdlog.h>

namespace ductl::engine {
namespace {

// Errors after which no round can succeed any more: a duck is dead, or holds something else than this engine expects.
bool breaks_the_flock(ErrorCode code) {
  return code == ErrorCode::kDuckDied || code == ErrorCode::kFlockEpoch || code == ErrorCode::kAgentRefused ||
         code == ErrorCode::kAgentUnreachable || code == ErrorCode::kAgentVersion;
}

FlockCounts difference(const FlockCounts& now, const FlockCounts& before) {
  return {now.rounds - before.rounds, now.repeats - before.repeats, now.nacks_sent - before.nacks_sent,
          now.nacks_received - before.nacks_received, now.compact_replies};
}

class SessionGenerator final : public Generator {
public:
  SessionGenerator(Forward& forward, const Tokenizer& tokenizer, const ChatFormat& chat_format,
                   const weights::ModelConfig& config, const GeneratorOptions& options)
      : options_(options),
        chat_format_(chat_format),
        tools_{forward, tokenizer, config,
               // The token and its draft are one batch: a flock that takes no more than a token a round has no room for it.
               options.speculate && forward.attention().drafts() && forward.tokens_max() > 1, config.vocab,
               std::min(config.vocab, tokenizer.size())},
        queue_(options.queue_max),
        sessions_(options.sessions_max,
                  [&forward, capacity = options.context_length] { return forward.attention().make_cache(capacity); }) {}

  // The cache of the first session, so that a lack of memory shows at the start and not in somebody's request.
  Expected<void> warm_up() {
    auto session = sessions_.choose({});
    if (!session) return tl::unexpected(session.error());
    return {};
  }

  Expected<GenerateResult> generate(const GenerateRequest& request, const GenerateCallbacks& callbacks) override;
  [[nodiscard]] const Tokenizer& tokenizer() const override { return tools_.tokenizer; }
  [[nodiscard]] const ChatFormat& chat_format() const override { return chat_format_; }
  [[nodiscard]] std::string model_name() const override { return options_.model_name; }
  [[nodiscard]] ContextRoom context() const override { return {options_.context_length, tools_.config.max_position}; }
  [[nodiscard]] std::optional<Error> broken() const override {
    const std::lock_guard lock(broken_mutex_);
    return broken_;
  }

private:
  [[nodiscard]] Expected<int> check_request(const GenerateRequest& request) const; // tokens that may be generated
  Expected<GenerateResult> generate_now(const GenerateRequest& request, const GenerateCallbacks& callbacks,
                                        int output_tokens_max);

  const GeneratorOptions options_;
  const ChatFormat& chat_format_;
  const GenerationTools tools_;
  RequestQueue queue_;
  KeptSessions sessions_; // of whose turn it is
  mutable std::mutex broken_mutex_;
  std::optional<Error> broken_;
};

Expected<int> SessionGenerator::check_request(const GenerateRequest& request) const {
  if (request.prompt.empty()) return fail(ErrorCode::kRequestValue, "the prompt has no tokens", "", "send at least one message");
  if (request.output_tokens_max < 0)
    return fail(ErrorCode::kRequestValue, "max_tokens is negative", "max_tokens", "ask for at least one token");
  for (int token : request.prompt) {
    if (token >= 0 && token < tools_.vocab) continue;
    return fail(ErrorCode::kRequestValue, fmt::format("token {} is outside the vocabulary of {}", token, tools_.vocab), "prompt",
                "use ids of this model's tokenizer");
  }
  if (auto checked = check(request.sampling); !checked) return tl::unexpected(checked.error());
  const int prompt_tokens = static_cast<int>(request.prompt.size());
  if (request.output_tokens_max > 0) return output_budget(context(), prompt_tokens, request.output_tokens_max);
  auto room = output_budget(context(), prompt_tokens, 0);
  if (room && options_.output_tokens_max > 0) return std::min(*room, options_.output_tokens_max);
  return room;
}

Expected<GenerateResult> SessionGenerator::generate(const GenerateRequest& request, const GenerateCallbacks& callbacks) {
  if (auto error = broken()) return tl::unexpected(*error);
  const auto output_tokens_max = check_request(request);
  if (!output_tokens_max) return tl::unexpected(output_tokens_max.error());
  const auto turn = queue_.enter(callbacks.cancelled);
  if (!turn && turn.error().code == ErrorCode::kCancelled) {
    GenerateResult result;
    result.finish = FinishReason::Cancelled;
    result.stats.input_tokens = static_cast<int>(request.prompt.size());
    return result;
  }
  if (!turn) return tl::unexpected(turn.error());
  if (auto error = broken()) return tl::unexpected(*error); // while this one waited
  return generate_now(request, callbacks, *output_tokens_max);
}

Expected<GenerateResult> SessionGenerator::generate_now(const GenerateRequest& request, const GenerateCallbacks& callbacks,
                                                        int output_tokens_max) {
  auto session = sessions_.choose(request.prompt);
  if (!session) return tl::unexpected(session.error());
  const FlockCounts before = options_.flock_counts ? options_.flock_counts() : FlockCounts{};
  auto result = Generation(tools_, **session, request, callbacks, output_tokens_max).run();
  if (result && options_.flock_counts) result->stats.flock = difference(options_.flock_counts(), before);
  if (result)
    spdlog::info("{}{}", result->stats.line(), result->finish == FinishReason::Cancelled ? "  cancelled" : "");
  else
    spdlog::error("a generation failed: {}", result.error().text());
  if (!result && breaks_the_flock(result.error().code)) {
    const std::lock_guard lock(broken_mutex_);
    broken_ = result.error();
  }
  return result;
}

} // namespace

Expected<std::unique_ptr<Generator>> make_generator(Forward& forward, const Tokenizer& tokenizer, const ChatFormat& chat_format,
                                                    const weights::ModelConfig& config, const GeneratorOptions& options) {
  const auto context = weights::choose_context_length(config, options.context_length);
  if (!context) return tl::unexpected(context.error());
  GeneratorOptions chosen = options;
  chosen.context_length = *context;
  auto generator = std::make_unique<SessionGenerator>(forward, tokenizer, chat_format, config, chosen);
  if (auto warm = generator->warm_up(); !warm) return tl::unexpected(warm.error());
  return generator;
}

} // namespace ductl::engine
