// What `model logits` and `model perplexity` share: where FFNs are computed, and a model opened for it.
#pragma once

#include "engine/commands/arguments.hpp"
#include "engine/commands/progress_line.hpp"
#include "engine/session/compute_model.hpp"

namespace ductl::engine {

// The options of model_source, joined with a command's own.
[[nodiscard]] std::vector<OptionSpec> with_source_options(std::vector<OptionSpec> own);

// PATH, and either --state DIR (a flock that is up) or --no-ducks. `context` as in ComputeOptions.
[[nodiscard]] Expected<std::unique_ptr<ComputeModel>>
open_model(const Arguments& arguments, ProgressLine& progress,
           const std::function<Expected<int>(const weights::ModelConfig&)>& context);

} // namespace ductl::engine
