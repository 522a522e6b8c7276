// Checkpoint names of FFN tensors, all families. Expert numbering is slice.hpp's.
#pragma once

#include "weights/model_config.hpp"

#include <string>

namespace ductl::weights {

struct ExpertNames {
  std::string gate, up, down;
};
[[nodiscard]] ExpertNames expert_names(const ModelConfig& config, int layer, int expert);

// The tensor that holds all experts of a layer in one, as some exports have it (not supported, but recognised).
[[nodiscard]] std::string fused_experts_name(int layer);

} // namespace ductl::weights
