#include "weights/checkpoint.hpp"

#include "tests/weights/temporary_checkpoint.hpp"
#include "weights/expert_names.hpp"
#include "weights/slice.hpp"

#include <gmock/gmock.h>

namespace ductl::weights {
namespace {

using nlohmann::json;
using test::TestTensor;
using testing::HasSubstr;

json llama_config() {
  return {{"model_type", "llama"},    {"hidden_size", 32},           {"num_hidden_layers", 2},   {"vocab_size", 8},
          {"num_attention_heads", 2}, {"intermediate_size", 16},     {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 64},
          {"rope_theta", 10000},      {"tie_word_embeddings", true}, {"torch_dtype", "bfloat16"}};
}
json moe_config() {
  return {{"model_type", "deepseek_v3"},
          {"hidden_size", 32},
          {"num_hidden_layers", 2},
          {"vocab_size", 8},
          {"num_attention_heads", 2},
          {"intermediate_size", 48},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 64},
          {"rope_theta", 10000},
          {"tie_word_embeddings", false},
          {"q_lora_rank", 8},
          {"kv_lora_rank", 8},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 4},
          {"v_head_dim", 8},
          {"n_routed_experts", 2},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 1},
          {"moe_intermediate_size", 16},
          {"first_k_dense_replace", 1},
          {"n_group", 1},
          {"topk_group", 1},
          {"norm_topk_prob", true},
          {"routed_scaling_factor", 1.5}};
}
TestTensor bf16(const std::string& name, std::int64_t rows, std::int64_t columns) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(0x3F80 + i % 64);
  return {name, "BF16", {rows, columns}, test::bytes_of(values)};
}
std::vector<TestTensor> ffn_tensors(const ModelConfig& config) {
  std::vector<TestTensor> tensors;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (int expert = 0; expert < expert_count(config, layer); ++expert) {
      const ExpertNames names = expert_names(config, layer, expert);
      const int channels = expert_channels(config, layer, expert);
      tensors.push_back(bf16(names.gate, channels, config.hidden));
      tensors.push_back(bf16(names.up, channels, config.hidden));
      tensors.push_back(bf16(names.down, config.hidden, channels));
    }
  }
  return tensors;
}

class CheckpointFolder : public testing::Test {
protected:
  void config(const json& value) { test::write_file(path() / "config.json", value.dump()); }
  void tensors(const std::vector<TestTensor>& values, const std::string& file = "model.safetensors") {
    test::write_file(path() / file, test::safetensors_text(values));
  }
  void index(const json& weight_map) {
    test::write_file(path() / "model.safetensors.index.json", json{{"weight_map", weight_map}}.dump());
  }
  Expected<std::unique_ptr<Checkpoint>> open() { return open_checkpoint(path().string()); }
  std::unique_ptr<Checkpoint> opened() {
    auto result = open();
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return result ? std::move(*result) : nullptr;
  }
  void expect_not_opened(ErrorCode code, const std::string& why) {
    const auto result = open();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code);
    EXPECT_THAT(result.error().message, HasSubstr(why));
    EXPECT_FALSE(result.error().place.empty());
    EXPECT_FALSE(result.error().next.empty());
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  test::TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, a_single_file_gives_its_tensors_config_and_size) {
  config(llama_config());
  tensors({bf16("m", 4, 6), {"v", "F32", {3}, test::bytes_of(std::vector<float>{1, -2, 0.5f})}});
  const auto checkpoint = opened();
  EXPECT_EQ(checkpoint->folder(), path());
  EXPECT_EQ(checkpoint->config().hidden, 32);
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("m", "v"));
  EXPECT_EQ(checkpoint->bytes(), 4u * 6 * 2 + 12);
  const auto matrix = checkpoint->matrix("m", 4, 6);
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix_element(*matrix, 0, 0), 1.0);
  EXPECT_EQ(checkpoint->vector("v", 3).value(), (std::vector<float>{1, -2, 0.5f}));
  EXPECT_FALSE(checkpoint->find("w"));
}

TEST_F(CheckpointFolder, shards_are_joined_by_the_index) {
  config(llama_config());
  tensors({bf16("a", 2, 2)}, "model-00001-of-00002.safetensors");
  tensors({bf16("b", 3, 3), bf16("hidden", 1, 1)}, "model-00002-of-00002.safetensors");
  index({{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  const auto checkpoint = opened();
  EXPECT_THAT(checkpoint->tensor_names(), testing::ElementsAre("a", "b"));
  EXPECT_TRUE(checkpoint->matrix("b", 3, 3));
}

TEST_F(CheckpointFolder, a_shard_that_is_missing_or_lacks_its_tensor_or_lies_elsewhere_is_refused) {
  config(llama_config());
  index({{"a", "model-1.safetensors"}});
  expect_not_opened(ErrorCode::kCheckpointFile, "No such file");
  tensors({bf16("b", 2, 2)}, "model-1.safetensors");
  expect_not_opened(ErrorCode::kCheckpointTensor, "\"a\" should be in this file");
  index({{"a", "../model-1.safetensors"}});
  expect_not_opened(ErrorCode::kCheckpointFile, "no plain file name");
  index({{"a", 3}});
  expect_not_opened(ErrorCode::kCheckpointFile, "no plain file name");
  index(json::object());
  expect_not_opened(ErrorCode::kCheckpointFile, "no weight_map");
}

TEST_F(CheckpointFolder, the_hub_cache_is_read_in_place_through_its_links) {
  const auto repo = path() / "models--org--tiny";
  test::write_file(repo / "blobs" / "c0", llama_config().dump());
  test::write_file(repo / "blobs" / "w0", test::safetensors_text({bf16("m", 2, 2)}));
  test::write_file(repo / "refs" / "main", "abc");
  std::filesystem::create_directories(repo / "snapshots" / "abc");
  std::filesystem::create_symlink("../../blobs/c0", repo / "snapshots" / "abc" / "config.json");
  std::filesystem::create_symlink("../../blobs/w0", repo / "snapshots" / "abc" / "model.safetensors");
  ::setenv("HF_HUB_CACHE", path().c_str(), 1);
  auto checkpoint = open_checkpoint("org/tiny");
  ::unsetenv("HF_HUB_CACHE");
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  EXPECT_TRUE((*checkpoint)->find("m"));
}

TEST_F(CheckpointFolder, without_config_or_weights_the_error_says_what_is_looked_for) {
  expect_not_opened(ErrorCode::kCheckpointFile, "cannot be read");
  config(llama_config());
  expect_not_opened(ErrorCode::kCheckpointFile, "neither model.safetensors nor");
  tensors({bf16("m", 2, 2)});
  const std::string whole = test::read_file(path() / "model.safetensors");
  test::write_file(path() / "model.safetensors", whole.substr(0, whole.size() - 1));
  expect_not_opened(ErrorCode::kCheckpointFile, "outside the file's");
}

TEST_F(CheckpointFolder, tensors_of_the_wrong_shape_or_type_are_named_with_what_was_found_and_expected) {
  config(llama_config());
  tensors({bf16("m", 2, 4), {"i", "I64", {2, 2}, std::string(32, '\0')}, {"v", "F8_E4M3", {4}, std::string(4, '\0')}});
  const auto checkpoint = opened();
  const auto shape = checkpoint->matrix("m", 4, 2);
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, ErrorCode::kCheckpointTensor);
  EXPECT_THAT(shape.error().message, HasSubstr("\"m\" has shape [2, 4]; expected [4, 2]"));
  EXPECT_EQ(shape.error().place, (path() / "model.safetensors").string());
  EXPECT_THAT(checkpoint->matrix("i", 2, 2).error().message, HasSubstr("has type I64"));
  EXPECT_THAT(checkpoint->vector("v", 4).error().message, HasSubstr("F8_E4M3 [4]"));
  EXPECT_THAT(checkpoint->vector("m", 8).error().message, HasSubstr("expected F32, F16 or BF16 [8]"));
  EXPECT_THAT(checkpoint->matrix("none", 1, 1).error().message, HasSubstr("\"none\" is missing"));
}

TEST_F(CheckpointFolder, fp8_needs_block_scales_of_f32_or_bf16_and_the_ceiling_grid) {
  config(llama_config());
  const TestTensor weight{"w.weight", "F8_E4M3", {130, 257}, std::string(130 * 257, '\x38')}; // all 1.0
  const auto with_scale = [&](const std::string& dtype, std::vector<std::int64_t> shape, std::size_t bytes) {
    tensors({{"w.weight_scale_inv", dtype, std::move(shape), std::string(bytes, '\0')}, weight});
    auto checkpoint = opened();
    auto matrix = checkpoint->matrix("w.weight", 130, 257);
    return matrix ? std::string() : matrix.error().message;
  };
  EXPECT_EQ(with_scale("F32", {2, 3}, 24), "");
  EXPECT_EQ(with_scale("BF16", {2, 3}, 12), "");
  EXPECT_THAT(with_scale("F32", {1, 3}, 12), HasSubstr("are F32 [1, 3]; expected F32 or BF16 [2, 3]"));
  EXPECT_THAT(with_scale("F8_E8M0", {2, 3}, 6), HasSubstr("are F8_E8M0"));
  tensors({weight});
  EXPECT_THAT(opened()->matrix("w.weight", 130, 257).error().message, HasSubstr("\"w.weight_scale_inv\" are missing"));
}

TEST_F(CheckpointFolder, a_tensor_at_an_odd_byte_is_refused_as_a_matrix) {
  config(llama_config());
  tensors({{"a", "U8", {1}, "x"}, bf16("m", 2, 2)});
  const auto matrix = opened()->matrix("m", 2, 2);
  ASSERT_FALSE(matrix);
  EXPECT_THAT(matrix.error().message, HasSubstr("no multiple of its element's 2 bytes"));
}

TEST_F(CheckpointFolder, experts_are_found_by_their_names_in_dense_routed_and_shared_form) {
  config(moe_config());
  const ModelConfig model = parse_model_config(moe_config().dump(), "", "").value();
  tensors(ffn_tensors(model));
  const auto checkpoint = opened();
  ASSERT_TRUE(check_tensors(*checkpoint)) << check_tensors(*checkpoint).error().text();
  EXPECT_EQ(expert_weights(*checkpoint, 0, 0)->gate.name, "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(expert_weights(*checkpoint, 0, 0)->down.columns, 48);
  EXPECT_EQ(expert_weights(*checkpoint, 1, 1)->up.name, "model.layers.1.mlp.experts.1.up_proj.weight");
  const auto shared = expert_weights(*checkpoint, 1, 2);
  EXPECT_EQ(shared->down.name, "model.layers.1.mlp.shared_experts.down_proj.weight");
  EXPECT_EQ(shared->gate.rows, 32); // two shared experts in one FFN
}

TEST_F(CheckpointFolder, every_missing_ffn_tensor_is_named_in_one_error) {
  config(moe_config());
  auto all = ffn_tensors(parse_model_config(moe_config().dump(), "", "").value());
  all.erase(all.begin() + 1);  // layer 0: up
  all.back().shape = {16, 64}; // layer 1: the shared expert's down
  tensors(all);
  const auto checked = check_tensors(*opened());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCheckpointTensor);
  EXPECT_THAT(checked.error().message, HasSubstr("model.layers.0.mlp.up_proj.weight"));
  EXPECT_THAT(checked.error().message,
              HasSubstr("model.layers.1.mlp.shared_experts.down_proj.weight\" has shape [16, 64]; expected [32, 32]"));
}

TEST_F(CheckpointFolder, a_tensor_that_the_family_has_not_is_refused_by_name) {
  config(moe_config());
  const ModelConfig model = parse_model_config(moe_config().dump(), "", "").value();
  for (const char* name :
       {"model.layers.1.self_attn.q_proj.bias", "model.layers.1.mlp.experts.99.up_proj.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight", "model.layers.01.input_layernorm.weight", "visual.patch"}) {
    auto all = ffn_tensors(model);
    all.push_back({name, "BF16", {2}, std::string(4, '\0')});
    tensors(all);
    const auto checked = check_tensors(*opened());
    ASSERT_FALSE(checked) << name;
    EXPECT_THAT(checked.error().message, HasSubstr(std::string("\"") + name + "\" is no part of a"));
  }
}

TEST_F(CheckpointFolder, fused_experts_are_refused_clearly) {
  config(moe_config());
  auto all = ffn_tensors(parse_model_config(moe_config().dump(), "", "").value());
  all.push_back({"model.layers.1.mlp.experts.gate_up_proj", "BF16", {2, 32, 32}, std::string(2 * 32 * 32 * 2, '\0')});
  tensors(all);
  const auto checked = check_tensors(*opened());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("holds all experts in one tensor"));
  EXPECT_THAT(checked.error().next, HasSubstr("one tensor an expert"));
}

TEST_F(CheckpointFolder, identity_stays_while_nothing_changes_and_changes_with_config_and_files) {
  config(llama_config());
  tensors({bf16("m", 2, 2)});
  const std::string first = opened()->identity();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(opened()->identity(), first);
  const auto time = std::filesystem::last_write_time(path() / "model.safetensors");
  std::filesystem::last_write_time(path() / "model.safetensors", time + std::chrono::seconds(1));
  const std::string touched = opened()->identity();
  EXPECT_NE(touched, first);
  auto other = llama_config();
  other["rms_norm_eps"] = 1e-6;
  config(other);
  EXPECT_NE(opened()->identity(), touched);
}

} // namespace
} // namespace ductl::weights
