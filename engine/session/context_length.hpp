// How long a context may be, and whether a request fits into it. Pure.
#pragma once

#include "inventory/error.hpp"
#include "weights/model_config.hpp"

namespace ductl::engine {

// The longest context that this engine computes rightly: the model's own, and with sparse attention (DeepSeek-V3.2) no more
// than index_topk positions, up to which it equals the dense attention that the backend computes.
[[nodiscard]] int context_limit(const weights::ModelConfig& config);

// `asked` = engine.context_length; 0 = context_limit(), at most 8192. More than context_limit() is refused.
[[nodiscard]] Expected<int> choose_context_length(const weights::ModelConfig& config, int asked);

// Tokens that may be generated. `asked` 0 = as many as there is room for. kContextLength with every figure when the prompt
// leaves no room for what was asked, or for one token.
[[nodiscard]] Expected<int> output_budget(int context, int prompt_tokens, int asked);

} // namespace ductl::engine
