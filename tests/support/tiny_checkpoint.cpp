#include "tests/support/tiny_checkpoint.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <stdlib.h>

namespace ductl::test {
namespace {

using Json = nlohmann::ordered_json;

template <class T> std::vector<std::byte> bytes_of(std::span<const T> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T, class Convert> std::vector<std::byte> converted(std::span<const float> values, Convert convert) {
  std::vector<T> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(convert(value));
  return bytes_of(std::span<const T>(out));
}

bool is_fp8(TinyType type) { return type == TinyType::F8 || type == TinyType::F8Bf16Scale; }
bool is_deepseek(const TinyModel& model) { return model.model_type.starts_with("deepseek"); }
bool has_experts(const TinyModel& model) { return is_deepseek(model) || model.model_type == "qwen3_moe"; }

constexpr int kIndexHeads = 4, kIndexDims = 16;

class Builder {
public:
  explicit Builder(const TinyModel& model) : model_(model), random_(model.seed) {}
  SafetensorsWriter build();

private:
  void vector(const std::string& name, int size) { store(name, {size}, random_.normals(size, 0.2F, 1), TinyType::Bf16); }
  void plain_matrix(const std::string& name, int rows, int columns) {
    const TinyType type = is_fp8(model_.type) ? TinyType::Bf16 : model_.type;
    store(name, {rows, columns}, random_.normals(std::size_t(rows) * columns, 1 / std::sqrt(float(columns))), type);
  }
  void matrix(const std::string& name, int rows, int columns) {
    if (is_fp8(model_.type))
      fp8_matrix(name, rows, columns);
    else
      plain_matrix(name, rows, columns);
  }
  void fp8_matrix(const std::string& name, int rows, int columns);
  void store(const std::string& name, const std::vector<std::int64_t>& shape, std::span<const float> values, TinyType type);
  void attention(const std::string& prefix);
  void latent_attention(const std::string& prefix);
  void indexer(const std::string& prefix);
  void joining(const std::string& prefix);
  void feed_forward(const std::string& prefix, int intermediate);
  void experts(const std::string& prefix);

  const TinyModel& model_;
  TinyRandom random_;
  SafetensorsWriter writer_;
};

void Builder::store(const std::string& name, const std::vector<std::int64_t>& shape, std::span<const float> values,
                    TinyType type) {
  if (model_.type == TinyType::F32 || type == TinyType::F32) return writer_.add_floats(name, shape, values);
  if (type == TinyType::F16) return writer_.add(name, "F16", shape, converted<std::uint16_t>(values, f16_of));
  writer_.add(name, "BF16", shape, converted<std::uint16_t>(values, bf16_of));
}

void Builder::fp8_matrix(const std::string& name, int rows, int columns) {
  constexpr float kSpread = 64; // of the codes' values
  const std::vector<float> values = random_.normals(std::size_t(rows) * columns, kSpread);
  writer_.add(name, "F8_E4M3", {rows, columns}, converted<std::uint8_t>(values, e4m3_of));
  const std::vector<std::int64_t> grid{(rows + 127) / 128, (columns + 127) / 128};
  std::vector<float> scales(std::size_t(grid[0] * grid[1]));
  for (float& scale : scales) scale = float((0.5 + random_.uniform()) / (kSpread * std::sqrt(double(columns))));
  if (model_.type == TinyType::F8Bf16Scale)
    writer_.add(name + "_scale_inv", "BF16", grid, converted<std::uint16_t>(std::span<const float>(scales), bf16_of));
  else
    writer_.add_floats(name + "_scale_inv", grid, scales);
}

void Builder::attention(const std::string& prefix) {
  const int query = model_.heads * model_.head_dim, key = model_.kv_heads * model_.head_dim;
  matrix(prefix + "q_proj.weight", query, model_.hidden);
  matrix(prefix + "k_proj.weight", key, model_.hidden);
  matrix(prefix + "v_proj.weight", key, model_.hidden);
  matrix(prefix + "o_proj.weight", model_.hidden, query);
  if (model_.model_type == "llama") return;
  vector(prefix + "q_norm.weight", model_.head_dim);
  vector(prefix + "k_norm.weight", model_.head_dim);
}

void Builder::latent_attention(const std::string& prefix) {
  const int query = model_.heads * (model_.nope_dim + model_.rope_dim);
  if (model_.q_lora == 0) {
    matrix(prefix + "q_proj.weight", query, model_.hidden);
  } else {
    matrix(prefix + "q_a_proj.weight", model_.q_lora, model_.hidden);
    vector(prefix + "q_a_layernorm.weight", model_.q_lora);
    matrix(prefix + "q_b_proj.weight", query, model_.q_lora);
  }
  matrix(prefix + "kv_a_proj_with_mqa.weight", model_.kv_lora + model_.rope_dim, model_.hidden);
  vector(prefix + "kv_a_layernorm.weight", model_.kv_lora);
  matrix(prefix + "kv_b_proj.weight", model_.heads * (model_.nope_dim + model_.v_dim), model_.kv_lora);
  matrix(prefix + "o_proj.weight", model_.hidden, model_.heads * model_.v_dim);
  if (model_.model_type == "deepseek_v32") indexer(prefix + "indexer.");
}

void Builder::indexer(const std::string& prefix) {
  matrix(prefix + "wq_b.weight", kIndexHeads * kIndexDims, model_.q_lora);
  matrix(prefix + "wk.weight", kIndexDims, model_.hidden);
  vector(prefix + "k_norm.weight", kIndexDims);
  vector(prefix + "k_norm.bias", kIndexDims);
  plain_matrix(prefix + "weights_proj.weight", kIndexHeads, model_.hidden);
}

// What an MTP layer has beside a decoder layer.
void Builder::joining(const std::string& prefix) {
  for (const char* name : {"enorm.weight", "hnorm.weight", "shared_head.norm.weight"}) vector(prefix + name, model_.hidden);
  plain_matrix(prefix + "eh_proj.weight", model_.hidden, 2 * model_.hidden);
}

void Builder::feed_forward(const std::string& prefix, int intermediate) {
  matrix(prefix + "gate_proj.weight", intermediate, model_.hidden);
  matrix(prefix + "up_proj.weight", intermediate, model_.hidden);
  matrix(prefix + "down_proj.weight", model_.hidden, intermediate);
}

void Builder::experts(const std::string& prefix) {
  plain_matrix(prefix + "gate.weight", model_.experts, model_.hidden);
  if (is_deepseek(model_))
    writer_.add_floats(prefix + "gate.e_score_correction_bias", {model_.experts}, random_.normals(model_.experts, 0.2F));
  for (int expert = 0; expert < model_.experts; ++expert)
    feed_forward(prefix + "experts." + std::to_string(expert) + ".", model_.moe_intermediate);
  if (is_deepseek(model_) && model_.shared_experts > 0)
    feed_forward(prefix + "shared_experts.", model_.shared_experts * model_.moe_intermediate);
}

SafetensorsWriter Builder::build() {
  plain_matrix("model.embed_tokens.weight", model_.vocab, model_.hidden);
  for (int layer = 0; layer < model_.layers + model_.mtp_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    if (layer >= model_.layers) joining(prefix);
    if (layer >= model_.layers && model_.mtp_copies) {
      const std::vector<float> same(static_cast<std::size_t>(model_.vocab) * static_cast<std::size_t>(model_.hidden), 0.25F);
      for (const char* name : {"embed_tokens.weight", "shared_head.head.weight"})
        store(prefix + name, {model_.vocab, model_.hidden}, same, TinyType::Bf16);
    }
    vector(prefix + "input_layernorm.weight", model_.hidden);
    vector(prefix + "post_attention_layernorm.weight", model_.hidden);
    if (is_deepseek(model_))
      latent_attention(prefix + "self_attn.");
    else
      attention(prefix + "self_attn.");
    const bool dense = !has_experts(model_) || (is_deepseek(model_) && layer < model_.dense_layers);
    if (dense)
      feed_forward(prefix + "mlp.", model_.intermediate);
    else
      experts(prefix + "mlp.");
  }
  vector("model.norm.weight", model_.hidden);
  if (!model_.tied) plain_matrix("lm_head.weight", model_.vocab, model_.hidden);
  return std::move(writer_);
}

Json yarn_json(const TinyModel& model) {
  Json yarn{{"type", "yarn"}, {"factor", model.yarn_factor}, {"original_max_position_embeddings", model.yarn_original}};
  yarn["beta_fast"] = 32;
  yarn["beta_slow"] = 1;
  if (is_deepseek(model)) {
    yarn["mscale"] = 1.0;
    yarn["mscale_all_dim"] = 1.0;
  }
  return yarn;
}

void add_deepseek(const TinyModel& model, Json& config) {
  config.update(Json{{"n_routed_experts", model.experts},
                     {"n_shared_experts", model.shared_experts},
                     {"first_k_dense_replace", model.dense_layers},
                     {"moe_layer_freq", 1},
                     {"n_group", model.groups},
                     {"topk_group", model.groups_kept},
                     {"topk_method", "noaux_tc"},
                     {"scoring_func", "sigmoid"},
                     {"routed_scaling_factor", model.routed_scale},
                     {"kv_lora_rank", model.kv_lora},
                     {"qk_nope_head_dim", model.nope_dim},
                     {"qk_rope_head_dim", model.rope_dim},
                     {"v_head_dim", model.v_dim}});
  config["q_lora_rank"] = model.q_lora == 0 ? Json(nullptr) : Json(model.q_lora);
  if (model.mtp_layers > 0) config["num_nextn_predict_layers"] = model.mtp_layers;
  if (model.model_type == "deepseek_v32")
    config.update(Json{{"index_n_heads", kIndexHeads}, {"index_head_dim", kIndexDims}, {"index_topk", model.index_topk}});
  if (model.index_interleave) config["indexer_rope_interleave"] = true;
}

std::string architecture(const std::string& model_type) {
  if (model_type == "llama") return "LlamaForCausalLM";
  if (model_type == "qwen3") return "Qwen3ForCausalLM";
  if (model_type == "qwen3_moe") return "Qwen3MoeForCausalLM";
  return model_type == "deepseek_v3" ? "DeepseekV3ForCausalLM" : "DeepseekV32ForCausalLM";
}

Json config_json(const TinyModel& model) {
  Json config{{"architectures", {architecture(model.model_type)}},
              {"model_type", model.model_type},
              {"hidden_size", model.hidden},
              {"num_hidden_layers", model.layers},
              {"vocab_size", model.vocab},
              {"num_attention_heads", model.heads},
              {"num_key_value_heads", is_deepseek(model) ? model.heads : model.kv_heads},
              {"intermediate_size", model.intermediate},
              {"max_position_embeddings", model.max_position},
              {"rms_norm_eps", 1e-6},
              {"rope_theta", model.rope_theta},
              {"tie_word_embeddings", model.tied},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"bos_token_id", 0},
              {"eos_token_id", 1}};
  if (!is_deepseek(model)) config["head_dim"] = model.head_dim;
  if (model.yarn_factor > 0) config["rope_scaling"] = yarn_json(model);
  if (has_experts(model)) {
    config.update(Json{{"num_experts_per_tok", model.experts_per_token}, {"moe_intermediate_size", model.moe_intermediate}});
    config["norm_topk_prob"] = true;
  }
  if (model.model_type == "qwen3_moe") {
    config["num_experts"] = model.experts;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = Json::array();
  }
  if (is_deepseek(model)) add_deepseek(model, config);
  if (is_fp8(model.type))
    config["quantization_config"] = {
        {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  return config;
}

} // namespace

void SafetensorsWriter::add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                            std::vector<std::byte> data) {
  entries_.push_back({name, dtype, shape, std::move(data)});
}

void SafetensorsWriter::add_floats(const std::string& name, const std::vector<std::int64_t>& shape,
                                   std::span<const float> values) {
  add(name, "F32", shape, bytes_of(values));
}

void SafetensorsWriter::write(const std::filesystem::path& file) const {
  Json header = Json::object();
  std::size_t offset = 0;
  for (const Entry& entry : entries_) {
    header[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {offset, offset + entry.data.size()}}};
    offset += entry.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out.write(text.data(), std::streamsize(text.size()));
  for (const Entry& entry : entries_)
    out.write(reinterpret_cast<const char*>(entry.data.data()), std::streamsize(entry.data.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

void write_tiny_checkpoint(const TinyModel& model, const std::filesystem::path& folder) {
  std::ofstream config(folder / "config.json");
  config << config_json(model).dump(2) << '\n';
  if (!config.flush()) throw std::runtime_error("cannot write " + (folder / "config.json").string());
  Builder(model).build().write(folder / "model.safetensors");
}

void overwrite_tensor(const std::filesystem::path& file, const std::string& tensor, std::size_t offset,
                      std::span<const std::byte> bytes) {
  std::string text = text_of(file);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(text.substr(sizeof header_bytes, header_bytes));
  const auto begin = header.at(tensor).at("data_offsets").at(0).get<std::size_t>();
  std::memcpy(text.data() + sizeof header_bytes + header_bytes + begin + offset, bytes.data(), bytes.size());
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

} // namespace ductl::test
