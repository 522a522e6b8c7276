// Scoring: how improbable a token is under a row of logits. Pure, in double.
#pragma once

#include <span>

namespace ductl::engine {

// -log softmax(logits)[token].
[[nodiscard]] double negative_log_likelihood(std::span<const float> logits, int token);

} // namespace ductl::engine
