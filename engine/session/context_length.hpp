// Whether a request fits into the context (how long that may be: weights/context_length.hpp). Pure.
#pragma once

#include "inventory/error.hpp"

namespace ductl::engine {

// Tokens that may be generated. `asked` 0 = as many as there is room for. kContextLength with every figure when the prompt
// leaves no room for what was asked, or for one token.
[[nodiscard]] Expected<int> output_budget(int context, int prompt_tokens, int asked);

} // namespace ductl::engine
