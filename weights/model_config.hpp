// What a model is: config.json of the families that the engine computes, in one struct.
//
// Read from a checkpoint's folder. Whatever is not understood (model_type, rope type, scoring function, quantisation
// method) is refused by name: a wrong guess gives fluent nonsense. Traps: docs/models.md.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::weights {

enum class Family { Llama, Qwen3, Qwen3Moe, DeepseekV3, DeepseekV32 };
[[nodiscard]] std::string_view to_string(Family family);

enum class RopeScaling { None, Yarn };

struct Rope {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::None;
  // YaRN (arXiv 2309.00071); meaningless otherwise
  double factor = 1, beta_fast = 32, beta_slow = 1;
  double mscale = 0, mscale_all_dim = 0; // 0 = not in the file
  int original_max_position = 0;
};

// Mixture of experts; experts == 0 means that every layer is dense.
struct Moe {
  int experts = 0, experts_per_token = 0, intermediate = 0;
  int shared_experts = 0;  // stored as one FFN of shared_experts * intermediate channels
  int first_moe_layer = 0; // layers below are dense
  int groups = 1, groups_kept = 1;
  bool sigmoid_scores = false; // noaux_tc with a correction bias; else softmax
  bool normalise = true;       // chosen weights divided by their sum
  double scale = 1;            // routed_scaling_factor
};

struct Mla { // multi-head latent attention; kv_lora_rank == 0 means plain attention,
             // q_lora_rank == 0 queries straight from q_proj
  int q_lora_rank = 0, kv_lora_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
};

struct Indexer { // DeepSeek sparse attention; heads == 0 means none
  int heads = 0, head_dim = 0, topk = 0;
  bool interleaved_rope = false; // else half-split, as DeepSeek-V3.2 has it; on its first rope_dim dimensions either way
};

struct ModelConfig {
  Family family = Family::Llama;
  std::string model_type;
  int hidden = 0, layers = 0, vocab = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int intermediate = 0; // of dense FFNs
  int max_position = 0;
  double norm_eps = 1e-6;
  bool qk_norm = false;
  bool tied_embeddings = false;
  Rope rope;
  Moe moe;
  Mla mla;
  Indexer indexer;
  int mtp_layers = 0; // behind `layers`: 0 or 1. open_checkpoint() makes it 0 where the files hold none
  int bos_token = -1;
  std::vector<int> eos_tokens; // of config.json and generation_config.json
  bool fp8_blocks = false;     // quantization_config: fp8, 128x128
  int element_bytes = 2;       // of weights that are not fp8, as torch_dtype says; each tensor's own header decides
};

// Parses the text of config.json (and of generation_config.json, may be empty). `place` names the file in errors.
[[nodiscard]] Expected<ModelConfig> parse_model_config(std::string_view json, std::string_view generation_json,
                                                       const std::string& place);
[[nodiscard]] Expected<ModelConfig> load_model_config(const std::filesystem::path& folder);

} // namespace ductl::weights
