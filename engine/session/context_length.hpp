// Whether a request fits into the context (how long that may be: weights/context_length.hpp). Pure.
#pragma once

#include "inventory/error.hpp"

namespace ductl::engine {

struct ContextRoom {
  int tokens = 0;    // of a session's cache: prompt and answer together
  int model_max = 0; // the longest that the model's positions allow; engine.context_length may be raised to it
};

// Tokens that may be generated. `asked` 0 = as many as there is room for. kContextLength with every figure when the prompt
// leaves no room for what was asked, or for one token.
[[nodiscard]] Expected<int> output_budget(const ContextRoom& context, int prompt_tokens, int asked);

} // namespace ductl::engine
