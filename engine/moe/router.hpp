// The router: scores to experts and weights, in float, ties to the lower index. Pure.
// softmax (Qwen3-MoE) and noaux_tc (DeepSeek: sigmoid, correction bias for choosing only, groups by their two best,
// masked groups at minus infinity, weights from unbiased scores): facts in docs/models.md.
#pragma once

#include "engine/moe/ffn.hpp"
#include "weights/checkpoint.hpp"

namespace ductl::engine {

class Router {
public:
  // Reads the correction biases of every MoE layer.
  [[nodiscard]] static Expected<Router> load(const weights::Checkpoint& checkpoint);
  // For tests: biases given as [layer][expert], empty where there is none.
  Router(weights::ModelConfig config, std::vector<std::vector<float>> bias);
  // Writes expert_choices(layer) choices: the routed ones in descending order of score, then the shared expert with weight 1.
  // In a dense layer: expert 0 with weight 1, `scores` is not looked at.
  void route(int layer, std::span<const float> scores, std::span<ExpertChoice> out) const;
  [[nodiscard]] int expert_choices(int layer) const;

private:
  weights::ModelConfig config_;
  std::vector<std::vector<float>> bias_;
};

} // namespace ductl::engine
