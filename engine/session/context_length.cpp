#include "engine/session/context_length.hpp"

#include <fmt/format.h>

namespace ductl::engine {

Expected<int> output_budget(int context, int prompt_tokens, int asked) {
  const int room = context - prompt_tokens;
  if (room < 1) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens; the context holds {}, answer included", prompt_tokens, context), "",
                "shorten the prompt or begin a new conversation, or raise engine.context_length");
  }
  if (asked > room) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens and {} more are asked for: {} in all; the context holds {}", prompt_tokens,
                            asked, static_cast<long long>(prompt_tokens) + asked, context),
                "", fmt::format("ask for at most {} tokens, shorten the prompt, or raise engine.context_length", room));
  }
  return asked > 0 ? asked : room;
}

} // namespace ductl::engine
