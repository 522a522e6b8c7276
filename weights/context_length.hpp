// How long a context may be: the one rule for ductl's budget and for the engine. Pure.
#pragma once

#include "inventory/error.hpp"
#include "weights/model_config.hpp"

namespace ductl::weights {

// The longest context that is computed rightly: the model's own, and with sparse attention (DeepSeek-V3.2) no more than
// index_topk positions, up to which it equals the dense attention that the engine computes.
[[nodiscard]] int context_limit(const ModelConfig& config);

// `asked` = engine.context_length; 0 = context_limit(), at most 8192. More than context_limit() is kContextLength.
[[nodiscard]] Expected<int> choose_context_length(const ModelConfig& config, int asked);

} // namespace ductl::weights
