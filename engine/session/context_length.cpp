#include "engine/session/context_length.hpp"

#include <fmt/format.h>

namespace ductl::engine {
namespace {

// Only what can be done is advised.
std::string or_raise_it(const ContextRoom& context) {
  if (context.tokens >= context.model_max) return {};
  return fmt::format(", or raise engine.context_length (this model's limit is {})", context.model_max);
}

} // namespace

Expected<int> output_budget(const ContextRoom& context, int prompt_tokens, int asked) {
  const int room = context.tokens - prompt_tokens;
  if (room < 1) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens; the context holds {}, answer included", prompt_tokens, context.tokens),
                "messages", "shorten the prompt or begin a new conversation" + or_raise_it(context));
  }
  if (asked > room) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens and {} more are asked for: {} in all; the context holds {}", prompt_tokens,
                            asked, static_cast<long long>(prompt_tokens) + asked, context.tokens),
                "max_tokens", fmt::format("ask for at most {} tokens, shorten the prompt{}", room, or_raise_it(context)));
  }
  return asked > 0 ? asked : room;
}

} // namespace ductl::engine
