#include "weights/known_tensors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace ductl::weights {
namespace {

template <std::size_t N> bool one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "12." of "12.mlp...": an index as files write it.
std::optional<int> take_index(std::string_view& text) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.' || index < 0) return std::nullopt;
  if (*text.data() == '0' && end != text.data() + 1) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return index;
}

bool is_deepseek(const ModelConfig& c) { return c.mla.kv_lora_rank > 0; }

bool is_known_attention(const ModelConfig& c, std::string_view name) {
  constexpr std::array<std::string_view, 5> kPlain{"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight",
                                                   "rotary_emb.inv_freq"};
  constexpr std::array<std::string_view, 2> kNorms{"q_norm.weight", "k_norm.weight"};
  constexpr std::array<std::string_view, 5> kLatent{"kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight", "kv_b_proj.weight",
                                                    "o_proj.weight", "rotary_emb.inv_freq"};
  constexpr std::array<std::string_view, 3> kLowRank{"q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight"};
  constexpr std::array<std::string_view, 5> kIndexer{"indexer.wq_b.weight", "indexer.wk.weight", "indexer.k_norm.weight",
                                                     "indexer.k_norm.bias", "indexer.weights_proj.weight"};
  if (!is_deepseek(c)) return one_of(name, kPlain) || (c.qk_norm && one_of(name, kNorms));
  if (one_of(name, kLatent) || (c.indexer.heads > 0 && one_of(name, kIndexer))) return true;
  return c.mla.q_lora_rank > 0 ? one_of(name, kLowRank) : name == "q_proj.weight";
}

bool is_known_ffn(const ModelConfig& c, int layer, std::string_view name) {
  constexpr std::array<std::string_view, 3> kExpert{"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
  const bool routed = c.moe.experts > 0 && layer >= c.moe.first_moe_layer;
  if (!routed) return one_of(name, kExpert);
  if (take_prefix(name, "experts.")) {
    const auto expert = take_index(name);
    return expert && *expert < c.moe.experts && one_of(name, kExpert);
  }
  if (take_prefix(name, "shared_experts.")) return c.moe.shared_experts > 0 && one_of(name, kExpert);
  return name == "gate.weight" || (c.moe.sigmoid_scores && name == "gate.e_score_correction_bias");
}

bool is_known_in_layer(const ModelConfig& c, int layer, std::string_view name) {
  constexpr std::array<std::string_view, 2> kNorms{"input_layernorm.weight", "post_attention_layernorm.weight"};
  constexpr std::array<std::string_view, 6> kMtp{"enorm.weight",        "hnorm.weight",
                                                 "eh_proj.weight",      "shared_head.norm.weight",
                                                 "embed_tokens.weight", "shared_head.head.weight"};
  if (layer >= c.layers && !is_deepseek(c)) return false;
  if (layer >= c.layers && one_of(name, kMtp)) return true;
  if (take_prefix(name, "self_attn.")) return is_known_attention(c, name);
  if (take_prefix(name, "mlp.")) return is_known_ffn(c, layer, name);
  return one_of(name, kNorms);
}

} // namespace

bool is_known_tensor(const ModelConfig& config, std::string_view name) {
  constexpr std::array<std::string_view, 3> kOutside{"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  constexpr std::string_view kScale = "_scale_inv";
  if (config.fp8_blocks && name.ends_with(kScale)) name.remove_suffix(kScale.size()); // of a matrix that is known itself
  if (one_of(name, kOutside)) return true;
  if (!take_prefix(name, "model.layers.")) return false;
  const auto layer = take_index(name);
  return layer && is_known_in_layer(config, *layer, name);
}

} // namespace ductl::weights
