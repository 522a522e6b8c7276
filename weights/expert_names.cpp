#include "weights/expert_names.hpp"

#include "weights/slice.hpp"

#include <fmt/format.h>

namespace ductl::weights {

ExpertNames expert_names(const ModelConfig& config, int layer, int expert) {
  std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
  if (is_moe_layer(config, layer)) {
    prefix += expert == shared_expert(config, layer) ? std::string("shared_experts.") : fmt::format("experts.{}.", expert);
  }
  return {prefix + "gate_proj.weight", prefix + "up_proj.weight", prefix + "down_proj.weight"};
}

std::string mtp_projection_name(int layer) { return fmt::format("model.layers.{}.eh_proj.weight", layer); }

std::string fused_experts_name(int layer) { return fmt::format("model.layers.{}.mlp.experts.gate_up_proj", layer); }

} // namespace ductl::weights
