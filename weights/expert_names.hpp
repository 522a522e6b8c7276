// Checkpoint names of FFN tensors, all families, and of what tells an MTP layer. Expert numbering is slice.hpp's.
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

// [hidden, 2 * hidden], in layers that predict a further token and in no others.
[[nodiscard]] std::string mtp_projection_name(int layer);

} // namespace ductl::weights
