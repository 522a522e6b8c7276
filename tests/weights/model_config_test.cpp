#include "weights/model_config.hpp"

#include "tests/weights/temporary_checkpoint.hpp"

#include <gmock/gmock.h>

namespace ductl::weights {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json config_of(const std::string& name) {
  return json::parse(test::read_file(std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/weights/configs" / (name + ".json")));
}
Expected<ModelConfig> parse(const json& config, const std::string& generation = {}) {
  return parse_model_config(config.dump(), generation, "config.json");
}
ModelConfig parsed(const json& config) {
  const auto result = parse(config);
  EXPECT_TRUE(result) << (result ? "" : result.error().text());
  return result.value_or(ModelConfig{});
}
json changed(json config, const json& patch) {
  config.update(patch);
  return config;
}
void expect_refused(const json& config, const std::string& naming) {
  const auto result = parse(config);
  ASSERT_FALSE(result) << "expected a refusal naming " << naming;
  EXPECT_EQ(result.error().code, ErrorCode::kModelUnsupported);
  EXPECT_THAT(result.error().message, HasSubstr(naming));
  EXPECT_EQ(result.error().place, "config.json");
  EXPECT_FALSE(result.error().next.empty());
}

TEST(ModelConfig, smollm2_is_a_llama_with_tied_embeddings_and_derived_head_size) {
  const ModelConfig c = parsed(config_of("smollm2_135m"));
  EXPECT_EQ(c.family, Family::Llama);
  EXPECT_EQ(std::tuple(c.hidden, c.layers, c.vocab, c.heads, c.kv_heads, c.head_dim, c.intermediate),
            std::tuple(576, 30, 49152, 9, 3, 64, 1536));
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_EQ(c.rope.theta, 100000);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_FALSE(c.qk_norm);
  EXPECT_EQ(c.moe.experts, 0);
  EXPECT_EQ(c.bos_token, 1);
  EXPECT_THAT(c.eos_tokens, ElementsAre(2));
}

TEST(ModelConfig, qwen3_keeps_its_own_head_size_and_normalises_queries_and_keys) {
  const ModelConfig c = parsed(config_of("qwen3_0_6b"));
  EXPECT_EQ(c.family, Family::Qwen3);
  EXPECT_EQ(c.head_dim, 128); // 16 heads of it are not the hidden size
  EXPECT_TRUE(c.qk_norm);
  EXPECT_EQ(c.rope.scaling, RopeScaling::None);
}

TEST(ModelConfig, qwen3_moe_routes_by_softmax_in_every_layer) {
  const ModelConfig c = parsed(config_of("qwen3_235b_a22b"));
  EXPECT_EQ(c.family, Family::Qwen3Moe);
  EXPECT_EQ(std::tuple(c.moe.experts, c.moe.experts_per_token, c.moe.intermediate, c.moe.first_moe_layer, c.moe.shared_experts),
            std::tuple(128, 8, 1536, 0, 0));
  EXPECT_FALSE(c.moe.sigmoid_scores);
  EXPECT_TRUE(c.moe.normalise);
  EXPECT_FALSE(c.tied_embeddings);
}

TEST(ModelConfig, deepseek_v32_has_latent_attention_grouped_routing_yarn_and_an_indexer) {
  const ModelConfig c = parsed(config_of("deepseek_v3_2"));
  EXPECT_EQ(c.family, Family::DeepseekV32);
  EXPECT_EQ(std::tuple(c.mla.q_lora_rank, c.mla.kv_lora_rank, c.mla.nope_dim, c.mla.rope_dim, c.mla.v_dim),
            std::tuple(1536, 512, 128, 64, 128));
  EXPECT_EQ(std::tuple(c.moe.experts, c.moe.experts_per_token, c.moe.groups, c.moe.groups_kept, c.moe.first_moe_layer),
            std::tuple(256, 8, 8, 4, 3));
  EXPECT_TRUE(c.moe.sigmoid_scores);
  EXPECT_EQ(c.moe.scale, 2.5);
  EXPECT_EQ(c.rope.scaling, RopeScaling::Yarn);
  EXPECT_EQ(std::tuple(c.rope.factor, c.rope.mscale, c.rope.mscale_all_dim, c.rope.original_max_position),
            std::tuple(40.0, 1.0, 1.0, 4096));
  EXPECT_EQ(std::tuple(c.indexer.heads, c.indexer.head_dim, c.indexer.topk), std::tuple(64, 128, 2048));
  EXPECT_TRUE(c.fp8_blocks);
  EXPECT_EQ(c.mtp_layers, 1);
  EXPECT_EQ(parsed(config_of("deepseek_v3")).indexer.heads, 0);
}

TEST(ModelConfig, queries_without_a_low_rank_form_are_said_by_null_and_not_by_silence) {
  EXPECT_EQ(parsed(changed(config_of("deepseek_v3"), {{"q_lora_rank", nullptr}})).mla.q_lora_rank, 0);
  json silent = config_of("deepseek_v3");
  silent.erase("q_lora_rank");
  expect_refused(silent, "q_lora_rank is missing");
}

TEST(ModelConfig, fields_are_found_in_text_config_and_in_both_spellings_of_rope_and_dtype) {
  json text = config_of("qwen3_0_6b");
  text.erase("rope_theta");
  text.erase("rope_scaling");
  text.erase("torch_dtype");
  text["rope_parameters"] = {
      {"rope_type", "yarn"}, {"rope_theta", 5e6}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  text["dtype"] = "float32";
  const ModelConfig c = parsed({{"model_type", "qwen3"}, {"text_config", text}});
  EXPECT_EQ(c.hidden, 1024);
  EXPECT_EQ(c.rope.theta, 5e6);
  EXPECT_EQ(c.rope.scaling, RopeScaling::Yarn);
  EXPECT_EQ(c.rope.mscale, 0); // not in the file
  EXPECT_EQ(c.element_bytes, 4);
  EXPECT_TRUE(c.tied_embeddings);
}

TEST(ModelConfig, end_tokens_of_config_and_generation_config_are_joined) {
  const auto c = parse(config_of("qwen3_0_6b"), R"({"eos_token_id": [151645, 151643]})");
  ASSERT_TRUE(c);
  EXPECT_THAT(c->eos_tokens, ElementsAre(151645, 151643));
  EXPECT_THAT(parsed(changed(config_of("qwen3_0_6b"), {{"eos_token_id", {1, 2}}})).eos_tokens, ElementsAre(1, 2));
  EXPECT_THAT(parsed(changed(config_of("qwen3_0_6b"), {{"eos_token_id", nullptr}})).eos_tokens, ElementsAre());
  EXPECT_FALSE(parse(config_of("qwen3_0_6b"), "[1]"));
}

TEST(ModelConfig, an_unknown_model_type_is_refused_by_name_and_the_known_ones_are_listed) {
  expect_refused(changed(config_of("qwen3_0_6b"), {{"model_type", "qwen4_exp"}}), "\"qwen4_exp\"");
  EXPECT_THAT(parse(changed(config_of("qwen3_0_6b"), {{"model_type", "x"}})).error().next, HasSubstr("deepseek_v32"));
  expect_refused(json::object(), "model_type is missing");
}

struct Refusal {
  const char* base;
  json patch;
  const char* naming;
};
class RefusedVariant : public testing::TestWithParam<Refusal> {};
TEST_P(RefusedVariant, is_named) { expect_refused(changed(config_of(GetParam().base), GetParam().patch), GetParam().naming); }

INSTANTIATE_TEST_SUITE_P(
    ModelConfig, RefusedVariant,
    testing::Values(
        Refusal{"smollm2_135m", {{"hidden_act", "gelu"}}, "hidden_act = \"gelu\""},
        Refusal{"smollm2_135m", {{"attention_bias", true}}, "attention_bias"},
        Refusal{"smollm2_135m", {{"mlp_bias", true}}, "mlp_bias"},
        Refusal{"smollm2_135m", {{"rope_interleaved", true}}, "rope_interleaved"},
        Refusal{"smollm2_135m", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}, "rope type = \"llama3\""},
        Refusal{"smollm2_135m", {{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}}, "rope type = \"linear\""},
        Refusal{"smollm2_135m", {{"rope_scaling", {{"factor", 8}}}}, "no type"},
        Refusal{"qwen3_0_6b", {{"rope_scaling", {{"type", "yarn"}}}}, "rope factor is missing"},
        Refusal{
            "qwen3_0_6b", {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"attention_factor", 1.1}}}}, "attention_factor"},
        Refusal{"smollm2_135m", {{"final_logit_softcapping", 30.0}}, "final_logit_softcapping = 30.0"},
        Refusal{"smollm2_135m", {{"embedding_multiplier", 12}}, "embedding_multiplier"},
        Refusal{"smollm2_135m", {{"logits_scaling", 8}}, "logits_scaling"},
        Refusal{"smollm2_135m", {{"no_rope_layers", {1, 1, 0}}}, "no_rope_layers"},
        Refusal{"qwen3_0_6b", {{"use_sliding_window", true}}, "use_sliding_window"},
        Refusal{"smollm2_135m", {{"sliding_window", 4096}}, "sliding_window"},
        Refusal{"qwen3_0_6b", {{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types"},
        Refusal{"qwen3_0_6b", {{"partial_rotary_factor", 0.25}}, "partial_rotary_factor"},
        Refusal{"qwen3_30b_a3b", {{"mlp_only_layers", {3}}}, "mlp_only_layers"},
        Refusal{"qwen3_30b_a3b", {{"decoder_sparse_step", 2}}, "decoder_sparse_step"},
        Refusal{"deepseek_v3", {{"scoring_func", "softmax"}}, "scoring_func"},
        Refusal{"deepseek_v3", {{"topk_method", "greedy"}}, "topk_method"},
        Refusal{"deepseek_v3_2", {{"q_lora_rank", nullptr}}, "q_lora_rank"},
        Refusal{"deepseek_v3", {{"moe_layer_freq", 2}}, "moe_layer_freq"},
        Refusal{"deepseek_v3", {{"index_topk", 2048}}, "index_topk"},
        Refusal{"deepseek_v3_2", {{"index_topk", nullptr}}, "index_topk is missing"},
        Refusal{"deepseek_v3", {{"quantization_config", {{"quant_method", "awq"}}}}, "quant_method = \"awq\""},
        Refusal{"deepseek_v3",
                {{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}}}},
                "weight_block_size"},
        Refusal{"deepseek_v3", {{"quantization_config", {{"quant_method", "fp8"}}}}, "weight_block_size"},
        Refusal{"deepseek_v3", {{"mlp_layer_types", {"sparse", "dense"}}}, "mlp_layer_types"},
        Refusal{"smollm2_135m", {{"torch_dtype", "int8"}}, "torch_dtype"},
        Refusal{"smollm2_135m", {{"text_config", {{"tie_word_embeddings", false}}}}, "tie_word_embeddings"}));

struct WrongValue {
  const char* base;
  json patch;
  const char* naming;
};
class WrongConfigValue : public testing::TestWithParam<WrongValue> {};
TEST_P(WrongConfigValue, is_named) { expect_refused(changed(config_of(GetParam().base), GetParam().patch), GetParam().naming); }

INSTANTIATE_TEST_SUITE_P(
    ModelConfig, WrongConfigValue,
    testing::Values(WrongValue{"smollm2_135m", {{"hidden_size", 0}}, "hidden_size is 0"},
                    WrongValue{"smollm2_135m", {{"hidden_size", -576}}, "hidden_size is -576"},
                    WrongValue{"smollm2_135m", {{"hidden_size", 1e300}}, "hidden_size"},
                    WrongValue{"smollm2_135m", {{"num_hidden_layers", 18446744073709551615u}}, "num_hidden_layers"},
                    WrongValue{"smollm2_135m", {{"num_hidden_layers", "30"}}, "num_hidden_layers is \"30\", not an integer"},
                    WrongValue{"smollm2_135m", {{"vocab_size", nullptr}}, "vocab_size is missing"},
                    WrongValue{"smollm2_135m", {{"rms_norm_eps", nullptr}}, "rms_norm_eps is missing"},
                    WrongValue{"smollm2_135m", {{"rope_theta", nullptr}}, "rope_theta is missing"},
                    WrongValue{"smollm2_135m", {{"num_key_value_heads", 2}}, "num_key_value_heads"},
                    WrongValue{"smollm2_135m", {{"num_attention_heads", 7}, {"num_key_value_heads", 7}}, "head_dim is missing"},
                    WrongValue{"smollm2_135m", {{"head_dim", 63}}, "odd"},
                    WrongValue{"smollm2_135m", {{"eos_token_id", 49152}}, "eos_token_id"},
                    WrongValue{"smollm2_135m", {{"eos_token_id", {-1}}}, "eos_token_id"},
                    WrongValue{"smollm2_135m", {{"tie_word_embeddings", 1}}, "tie_word_embeddings"},
                    WrongValue{"qwen3_30b_a3b", {{"norm_topk_prob", nullptr}}, "norm_topk_prob is missing"},
                    WrongValue{"qwen3_30b_a3b", {{"num_experts_per_tok", 129}}, "num_experts_per_tok"},
                    WrongValue{"deepseek_v3", {{"n_group", 7}}, "n_group"},
                    WrongValue{"deepseek_v3", {{"topk_group", 9}}, "topk_group"},
                    WrongValue{"deepseek_v3", {{"n_group", 256}}, "groups of one expert"},
                    WrongValue{"deepseek_v3", {{"topk_group", 1}, {"num_experts_per_tok", 33}}, "kept groups"}));

TEST(ModelConfig, every_fault_of_a_file_is_reported_at_once) {
  const auto result =
      parse(changed(config_of("smollm2_135m"), {{"hidden_act", "gelu"}, {"attention_bias", true}, {"torch_dtype", "int8"}}));
  ASSERT_FALSE(result);
  for (const char* name : {"hidden_act", "attention_bias", "torch_dtype"}) EXPECT_THAT(result.error().message, HasSubstr(name));
}

TEST(ModelConfig, text_that_is_no_json_object_is_an_error_of_the_file) {
  for (const std::string text : {"", "{", "[]", "{\"a\":1,\"a\":2}"}) {
    const auto result = parse_model_config(text, "", "config.json");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kCheckpointFile);
  }
}

} // namespace
} // namespace ductl::weights
