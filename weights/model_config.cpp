#include "weights/model_config.hpp"

#include "weights/config_reader.hpp"
#include "weights/json_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::weights {
namespace {

using Json = nlohmann::json;
constexpr int kWide = 1 << 20; // no width of any model comes near; products of two stay within 64 bits
constexpr std::uint64_t kConfigBytesMax = 4u << 20;

struct FamilyRow {
  const char* model_type;
  Family family;
};
constexpr FamilyRow kFamilies[] = {{"llama", Family::Llama},
                                   {"qwen3", Family::Qwen3},
                                   {"qwen3_moe", Family::Qwen3Moe},
                                   {"deepseek_v3", Family::DeepseekV3},
                                   {"deepseek_v32", Family::DeepseekV32}};

bool is_deepseek(Family family) { return family == Family::DeepseekV3 || family == Family::DeepseekV32; }

Expected<Family> read_family(const ConfigReader& in, const std::string& place) {
  const Json* type = in.find("model_type");
  if (type == nullptr || !type->is_string()) {
    return fail(ErrorCode::kModelUnsupported, "model_type is missing, so nothing says what this model is", place,
                "use a checkpoint in the Hugging Face layout");
  }
  for (const FamilyRow& row : kFamilies) {
    if (*type == row.model_type) return row.family;
  }
  return fail(ErrorCode::kModelUnsupported, fmt::format("model_type \"{}\" is not supported", type->get<std::string>()), place,
              "supported are llama, qwen3, qwen3_moe, deepseek_v3 and deepseek_v32");
}

// rope_parameters (files of transformers 5) or rope_scaling beside rope_theta (before); null when there is neither.
const Json* rope_object(ConfigReader& in) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (const Json* rope = in.find(name)) {
      if (rope->is_object()) return rope;
      in.wrong(name, "is not an object");
    }
  }
  return nullptr;
}

const Json* member(const Json* object, const char* name) {
  if (object == nullptr) return nullptr;
  const auto it = object->find(name);
  return it == object->end() || it->is_null() ? nullptr : &*it;
}

void read_yarn(ConfigReader& in, const Json& rope, Rope& out, int max_position) {
  out.scaling = RopeScaling::Yarn;
  out.factor = in.number(member(&rope, "factor"), "rope factor", 1, 1e6);
  out.beta_fast = in.number_or(member(&rope, "beta_fast"), "rope beta_fast", 32, 1e-3, 1e6);
  out.beta_slow = in.number_or(member(&rope, "beta_slow"), "rope beta_slow", 1, 1e-3, 1e6);
  out.mscale = in.number_or(member(&rope, "mscale"), "rope mscale", 0, 0, 1e3);
  out.mscale_all_dim = in.number_or(member(&rope, "mscale_all_dim"), "rope mscale_all_dim", 0, 0, 1e3);
  out.original_max_position = static_cast<int>(in.number_or(member(&rope, "original_max_position_embeddings"),
                                                            "rope original_max_position_embeddings", max_position, 1, 1 << 30));
  for (const char* name : {"attention_factor", "truncate"}) { // both change the curve; no supported model has them
    const Json* value = member(&rope, name);
    if (value != nullptr && *value != Json(true)) in.unsupported(fmt::format("rope {}", name), *value, "");
  }
}

void read_rope(ConfigReader& in, ModelConfig& out) {
  const Json* rope = rope_object(in);
  const Json* theta = member(rope, "rope_theta");
  out.rope.theta = in.number(theta != nullptr ? theta : in.find("rope_theta"), "rope_theta", 1, 1e12);
  const Json* kind = member(rope, "rope_type") != nullptr ? member(rope, "rope_type") : member(rope, "type");
  if (kind != nullptr && *kind == Json("yarn")) {
    read_yarn(in, *rope, out.rope, out.max_position);
  } else if (kind != nullptr && *kind != Json("default")) {
    in.unsupported("rope type", *kind, "supported are default and yarn");
  } else if (kind == nullptr && member(rope, "factor") != nullptr) {
    in.wrong("rope_scaling", "has a factor but no type");
  }
  for (const Json* partial : {in.find("partial_rotary_factor"), member(rope, "partial_rotary_factor")}) {
    if (partial != nullptr && *partial != Json(1.0)) in.unsupported("partial_rotary_factor", *partial, "");
  }
  // Which pairs rotate together is fixed by the family; a file that says otherwise is another model.
  in.require_absent_or("rope_interleaved", is_deepseek(out.family), "");
  in.require_absent_or("rope_interleave", is_deepseek(out.family), "");
}

// Fields that would change what every family computes.
void refuse_variants(ConfigReader& in) {
  in.require_absent_or("hidden_act", "silu", "the FFN kernels compute SwiGLU with silu");
  in.require_absent_or("attention_bias", false, "");
  in.require_absent_or("mlp_bias", false, "");
  in.require_absent_or("use_sliding_window", false, "");
  if (in.find("sliding_window") != nullptr && in.find("use_sliding_window") == nullptr) {
    in.unsupported("sliding_window", *in.find("sliding_window"), "");
  }
  // Steps of other models' forward passes. Published configs of the families here lack them, or have them off.
  for (const char* name : {"final_logit_softcapping", "attn_logit_softcapping", "logit_scale", "logits_scaling",
                           "embedding_multiplier", "residual_multiplier", "attention_multiplier", "query_pre_attn_scalar",
                           "clip_qkv", "attention_chunk_size", "no_rope_layers", "no_rope_layer_interval", "use_qk_norm"}) {
    const Json* value = in.find(name);
    if (value != nullptr && !value->is_null() && *value != Json(false)) in.unsupported(name, *value, "");
  }
  if (const Json* types = in.find("layer_types")) {
    const bool all_full =
        types->is_array() && std::all_of(types->begin(), types->end(), [](const Json& t) { return t == "full_attention"; });
    if (!all_full) in.unsupported("layer_types", *types, "every layer must be full_attention");
  }
}

void read_quantization(ConfigReader& in, ModelConfig& out) {
  if (const Json* other = in.find("compression_config")) in.unsupported("compression_config", *other, "");
  const Json* quant = in.find("quantization_config");
  if (quant == nullptr) return;
  if (!quant->is_object()) return in.wrong("quantization_config", "is not an object");
  const Json* method = member(quant, "quant_method");
  if (method == nullptr) return in.wrong("quantization_config", "has no quant_method");
  if (*method != "fp8") return in.unsupported("quant_method", *method, "supported is fp8 with 128x128 block scales");
  const Json* block = member(quant, "weight_block_size");
  if (block == nullptr || *block != Json({128, 128})) {
    in.unsupported("weight_block_size", block == nullptr ? Json() : *block, "blocks must be [128, 128]");
  }
  const Json* fmt_name = member(quant, "fmt");
  if (fmt_name != nullptr && *fmt_name != "e4m3") in.unsupported("quantization fmt", *fmt_name, "it must be e4m3");
  out.fp8_blocks = true;
}

void read_tie(ConfigReader& in, ModelConfig& out) {
  const auto values = in.find_all("tie_word_embeddings"); // at the root, in text_config, or in both
  for (const Json* value : values) {
    if (!value->is_boolean()) return in.wrong("tie_word_embeddings", "is neither true nor false");
    if (*value != *values.front())
      return in.wrong("tie_word_embeddings", "says one thing at the root and another in text_config");
    out.tied_embeddings = value->get<bool>();
  }
}

void read_dtype(ConfigReader& in, ModelConfig& out) {
  const std::string name = in.text_or("dtype", in.text_or("torch_dtype", "bfloat16"));
  if (name == "float32")
    out.element_bytes = 4;
  else if (name != "bfloat16" && name != "float16")
    in.unsupported("torch_dtype", name, "supported are bfloat16, float16 and float32");
}

void read_tokens(ConfigReader& in, const Json& generation, ModelConfig& out) {
  const auto bos = in.tokens(in.find("bos_token_id"), "bos_token_id", out.vocab);
  if (!bos.empty()) out.bos_token = bos.front();
  out.eos_tokens = in.tokens(in.find("eos_token_id"), "eos_token_id", out.vocab);
  const auto more = in.tokens(member(&generation, "eos_token_id"), "generation_config.json: eos_token_id", out.vocab);
  for (int id : more) {
    if (std::find(out.eos_tokens.begin(), out.eos_tokens.end(), id) == out.eos_tokens.end()) out.eos_tokens.push_back(id);
  }
}

void read_plain_attention(ConfigReader& in, ModelConfig& out) {
  out.kv_heads = in.integer_or("num_key_value_heads", out.heads, 1, kWide);
  if (out.heads % out.kv_heads != 0)
    in.wrong("num_key_value_heads", fmt::format("{} does not divide {} heads", out.kv_heads, out.heads));
  const bool divides = out.hidden % out.heads == 0;
  if (in.find("head_dim") == nullptr && !divides)
    in.wrong("head_dim", "is missing, and hidden_size is no multiple of num_attention_heads");
  out.head_dim = in.integer_or("head_dim", divides ? out.hidden / out.heads : 2, 2, 4096);
  if (out.head_dim % 2 != 0) in.wrong("head_dim", fmt::format("{} is odd, rope needs pairs", out.head_dim));
  out.qk_norm = out.family != Family::Llama;
}

void read_mla(ConfigReader& in, ModelConfig& out) {
  // null is said, not forgotten: queries come straight from q_proj. The indexer needs the low-rank form.
  const bool plain_q = in.is_null("q_lora_rank") && out.family == Family::DeepseekV3;
  if (!plain_q) out.mla.q_lora_rank = in.integer("q_lora_rank", 1, kWide);
  out.mla.kv_lora_rank = in.integer("kv_lora_rank", 1, kWide);
  out.mla.nope_dim = in.integer("qk_nope_head_dim", 1, 4096);
  out.mla.rope_dim = in.integer("qk_rope_head_dim", 2, 4096);
  out.mla.v_dim = in.integer("v_head_dim", 1, 4096);
  if (out.mla.rope_dim % 2 != 0) in.wrong("qk_rope_head_dim", "is odd, rope needs pairs");
  out.kv_heads = out.heads; // num_key_value_heads says nothing in MLA
  out.head_dim = out.mla.nope_dim + out.mla.rope_dim;
  if (out.family == Family::DeepseekV32) {
    out.indexer.heads = in.integer("index_n_heads", 1, 4096);
    out.indexer.head_dim = in.integer("index_head_dim", 2, 4096);
    out.indexer.topk = in.integer("index_topk", 1, 1 << 30);
    if (in.find("indexer_rope_interleave") != nullptr) out.indexer.interleaved_rope = in.boolean("indexer_rope_interleave");
    if (in.ok() && out.indexer.head_dim < out.mla.rope_dim)
      in.wrong("index_head_dim",
               fmt::format("{} is less than qk_rope_head_dim, whose positions its keys carry", out.indexer.head_dim));
  } else if (const Json* topk = in.find("index_topk")) {
    in.unsupported("index_topk", *topk, "only deepseek_v32 has an indexer");
  }
}

// Layers below the returned one are dense. transformers 5 may write a list instead of first_k_dense_replace.
int read_first_moe_layer(ConfigReader& in, int layers) {
  const Json* types = in.find("mlp_layer_types");
  if (types == nullptr) return in.integer("first_k_dense_replace", 0, layers);
  int first = 0;
  const bool sized = types->is_array() && types->size() == static_cast<std::size_t>(layers);
  while (sized && first < layers && (*types)[static_cast<std::size_t>(first)] == "dense") ++first;
  for (int i = first; sized && i < layers; ++i) {
    if ((*types)[static_cast<std::size_t>(i)] != "sparse") {
      in.unsupported("mlp_layer_types", *types, "dense layers must come first, sparse ones after them");
      return 0;
    }
  }
  if (!sized) in.wrong("mlp_layer_types", "is not a list with one entry a layer");
  return first;
}

void read_deepseek_moe(ConfigReader& in, ModelConfig& out) {
  Moe& moe = out.moe;
  in.require_absent_or("scoring_func", "sigmoid", "");
  in.require_absent_or("topk_method", "noaux_tc", "");
  in.require_absent_or("moe_layer_freq", 1, "");
  moe.experts = in.integer("n_routed_experts", 1, 65000);
  moe.experts_per_token = in.integer("num_experts_per_tok", 1, 256);
  moe.intermediate = in.integer("moe_intermediate_size", 1, kWide);
  moe.shared_experts = in.integer_or("n_shared_experts", 0, 0, 64);
  moe.first_moe_layer = read_first_moe_layer(in, out.layers);
  moe.groups = in.integer("n_group", 1, 4096);
  moe.groups_kept = in.integer("topk_group", 1, 4096);
  moe.sigmoid_scores = true;
  moe.normalise = in.boolean("norm_topk_prob");
  moe.scale = in.number(in.find("routed_scaling_factor"), "routed_scaling_factor", 1e-6, 1e6);
  out.mtp_layers = std::min(in.integer_or("num_nextn_predict_layers", 0, 0, 64), 1); // one draft a step: the first is used
  if (!in.ok()) return;
  if (moe.experts % moe.groups != 0)
    return in.wrong("n_group", fmt::format("{} does not divide {} experts", moe.groups, moe.experts));
  if (moe.groups_kept > moe.groups)
    return in.wrong("topk_group", fmt::format("{} is more than {} groups", moe.groups_kept, moe.groups));
  if (moe.groups > 1 && moe.experts / moe.groups < 2)
    return in.wrong("n_group", "leaves groups of one expert; a group's score needs two");
  if (moe.experts_per_token > moe.experts / moe.groups * moe.groups_kept) {
    in.wrong("num_experts_per_tok", fmt::format("{} is more than the kept groups hold", moe.experts_per_token));
  }
}

void read_qwen_moe(ConfigReader& in, ModelConfig& out) {
  Moe& moe = out.moe;
  moe.experts = in.integer("num_experts", 1, 65000);
  moe.experts_per_token = in.integer("num_experts_per_tok", 1, 256);
  moe.intermediate = in.integer("moe_intermediate_size", 1, kWide);
  moe.normalise = in.boolean("norm_topk_prob");
  in.require_absent_or("decoder_sparse_step", 1, "every layer must be a mixture of experts");
  in.require_absent_or("mlp_only_layers", Json::array(), "every layer must be a mixture of experts");
  in.require_absent_or("shared_expert_intermediate_size", 0, "");
  if (moe.experts_per_token > moe.experts) in.wrong("num_experts_per_tok", "is more than num_experts");
}

void read_common(ConfigReader& in, ModelConfig& out) {
  out.hidden = in.integer("hidden_size", 1, kWide);
  out.layers = in.integer("num_hidden_layers", 1, 4096);
  out.vocab = in.integer("vocab_size", 1, 1 << 24);
  out.heads = in.integer("num_attention_heads", 1, 4096);
  const bool dense = out.family != Family::Qwen3Moe; // there it is written but no layer uses it
  out.intermediate = dense ? in.integer("intermediate_size", 1, kWide) : in.integer_or("intermediate_size", 0, 0, kWide);
  out.max_position = in.integer("max_position_embeddings", 1, 1 << 30);
  out.norm_eps = in.number(in.find("rms_norm_eps"), "rms_norm_eps", 1e-12, 1);
}

} // namespace

std::string_view to_string(Family family) {
  for (const FamilyRow& row : kFamilies) {
    if (row.family == family) return row.model_type;
  }
  return "unknown";
}

Expected<ModelConfig> parse_model_config(std::string_view json, std::string_view generation_json, const std::string& place) {
  const auto root = parse_json_object(json, 32, ErrorCode::kCheckpointFile, place);
  if (!root) return tl::unexpected(root.error());
  Json generation = Json::object();
  if (!generation_json.empty()) {
    auto parsed =
        parse_json_object(generation_json, 32, ErrorCode::kCheckpointFile, place + " (generation_config.json beside it)");
    if (!parsed) return tl::unexpected(parsed.error());
    generation = std::move(*parsed);
  }
  ConfigReader in(*root, place);
  const auto family = read_family(in, place);
  if (!family) return tl::unexpected(family.error());
  ModelConfig config;
  config.family = *family;
  config.model_type = std::string(to_string(*family));
  read_common(in, config);
  if (!in.ok()) return tl::unexpected(in.error()); // what follows divides by these
  refuse_variants(in);
  if (is_deepseek(config.family)) {
    read_mla(in, config);
    read_deepseek_moe(in, config);
  } else {
    read_plain_attention(in, config);
    if (config.family == Family::Qwen3Moe) read_qwen_moe(in, config);
  }
  read_rope(in, config);
  read_quantization(in, config);
  read_tie(in, config);
  read_dtype(in, config);
  read_tokens(in, generation, config);
  if (!in.ok()) return tl::unexpected(in.error());
  return config;
}

Expected<ModelConfig> load_model_config(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  auto text = read_text_file(file, kConfigBytesMax);
  if (!text) {
    Error error = text.error();
    error.next = "give the folder of a checkpoint in the Hugging Face layout (config.json beside its .safetensors)";
    return tl::unexpected(std::move(error));
  }
  std::string generation;
  const auto generation_file = folder / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(generation_file, ignored)) {
    auto read = read_text_file(generation_file, kConfigBytesMax);
    if (!read) return tl::unexpected(read.error());
    generation = std::move(*read);
  }
  return parse_model_config(*text, generation, file.string());
}

} // namespace ductl::weights
