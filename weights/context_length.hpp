// How long a context may be: the one rule for ductl's budget and for the engine. Pure.
#pragma once

#include "inventory/error.hpp"
#include "weights/model_config.hpp"

namespace ductl::weights {

// `asked` = engine.context_length; 0 = max_position_embeddings, at most 8192. More than the model's positions is kContextLength.
[[nodiscard]] Expected<int> choose_context_length(const ModelConfig& config, int asked);

} // namespace ductl::weights
