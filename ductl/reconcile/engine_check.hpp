// Would the engine serve this model? Asked of duck-engine itself, before ducks are started and filled for it: tensors of the
// host, tokenizer, chat format, context length, API keys and port.
#pragma once

#include "ductl/reconcile/flock_model.hpp"
#include "ductl/reconcile/observed.hpp"

namespace ductl::reconcile {

// Runs `duck-engine check` and waits for it. The error is the engine's own, or kCancelled once `interrupted` is true. A running
// engine of ours may hold the API's port.
[[nodiscard]] Expected<void> check_engine(const FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                                          const ObservedEngine& engine, const std::function<bool()>& interrupted);

} // namespace ductl::reconcile
