// A checkpoint without files: random weights in the shape of a config.json, for measuring a model that nobody has here.
//
// open_checkpoint() takes its source like any other. The same source gives the same weights in every process, so ducks that were
// filled from it and an engine that opens it agree. Matrices of the host lie in memory of their own, as they would in a file;
// those of FFNs, which are only read to be packed, are windows into one stretch of random numbers. Weights are gaussian with a
// deviation of 0.02 (fp8: in codes around +-60 and block scales), norms near 1: activations stay in the range of real models.
// There is no MTP layer and no tokenizer.
#pragma once

#include "weights/checkpoint.hpp"

namespace ductl::weights {

struct RandomShape {
  std::filesystem::path config; // config.json of any supported family
  int layers = 0, vocab = 0;    // 0 = as the config says; layers: at most as many
};

// "random:layers=4,vocab=32000:/models/qwen3/config.json"
[[nodiscard]] std::string random_source(const RandomShape& shape);
[[nodiscard]] bool is_random_source(std::string_view source);

// The shape's config, cut. kUsage for more layers than there are.
[[nodiscard]] Expected<ModelConfig> random_config(const RandomShape& shape);
[[nodiscard]] Expected<std::unique_ptr<Checkpoint>> open_random_checkpoint(const std::string& source);

} // namespace ductl::weights
