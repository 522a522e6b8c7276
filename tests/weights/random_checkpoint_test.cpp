#include "weights/random_checkpoint.hpp"

#include "weights/slice.hpp"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>

namespace ductl::weights {
namespace {

using testing::HasSubstr;

std::filesystem::path config_file(const std::string& name) {
  return std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/weights/configs" / (name + ".json");
}

std::unique_ptr<Checkpoint> open(const RandomShape& shape) {
  auto checkpoint = open_checkpoint(random_source(shape));
  EXPECT_TRUE(checkpoint) << (checkpoint ? "" : checkpoint.error().text());
  return checkpoint ? std::move(*checkpoint) : nullptr;
}

MatrixView matrix(const Checkpoint& checkpoint, const std::string& name, int rows, int columns) {
  auto found = checkpoint.matrix(name, rows, columns);
  EXPECT_TRUE(found) << (found ? "" : found.error().text());
  return found.value_or(MatrixView{});
}

double rms(const MatrixView& m, int rows) {
  double sum = 0;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < m.columns; ++column) sum += std::pow(matrix_element(m, row, column), 2);
  return std::sqrt(sum / rows / m.columns);
}

TEST(RandomCheckpoint, CutsLayersAndVocabulary) {
  const auto whole = random_config({config_file("deepseek_v3"), 0, 0}), cut = random_config({config_file("deepseek_v3"), 2, 500});
  ASSERT_TRUE(whole && cut);
  EXPECT_EQ(whole->layers, 61);
  EXPECT_EQ(whole->mtp_layers, 0);
  EXPECT_EQ(cut->layers, 2);
  EXPECT_EQ(cut->vocab, 500);
  for (const int token : cut->eos_tokens) EXPECT_LT(token, 500);
  EXPECT_FALSE(is_moe_layer(*cut, 1));
}

TEST(RandomCheckpoint, RefusesWhatIsNoShape) {
  const auto deeper = random_config({config_file("qwen3_30b_a3b"), 49, 0});
  ASSERT_FALSE(deeper);
  EXPECT_EQ(deeper.error().code, ErrorCode::kUsage);
  EXPECT_THAT(deeper.error().message, HasSubstr("the model has 48"));
  EXPECT_FALSE(random_config({config_file("no_such_file"), 0, 0}));
  for (const char* source : {"random:", "random:layers=1:x", "random:layers=-1,vocab=2:x", "random:layers=1,vocab=99999999999:x",
                             "random:layers=1,vocab=2:"}) {
    const auto opened = open_checkpoint(source);
    ASSERT_FALSE(opened) << source;
    EXPECT_EQ(opened.error().code, ErrorCode::kUsage) << source;
  }
}

TEST(RandomCheckpoint, TheSameSourceGivesTheSameWeights) {
  const RandomShape shape{config_file("qwen3_30b_a3b"), 2, 1000};
  const auto one = open(shape), other = open(shape), cut = open({shape.config, 1, 1000});
  for (const char* name : {"model.layers.0.self_attn.k_proj.weight", "model.layers.1.mlp.experts.7.up_proj.weight"}) {
    const int rows = std::string_view(name).find("mlp") == std::string_view::npos ? 512 : 768;
    const MatrixView a = matrix(*one, name, rows, 2048), b = matrix(*other, name, rows, 2048);
    EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<std::size_t>(rows) * 2048 * 2), 0) << name;
  }
  EXPECT_EQ(one->vector("model.norm.weight", 2048).value(), other->vector("model.norm.weight", 2048).value());
  EXPECT_EQ(one->identity(), other->identity());
  EXPECT_NE(one->identity(), cut->identity());
}

TEST(RandomCheckpoint, EveryMatrixIsAnotherAndOfOrdinarySize) {
  const auto checkpoint = open({config_file("qwen3_30b_a3b"), 2, 1000});
  const ExpertWeights a = expert_weights(*checkpoint, 0, 0).value(), b = expert_weights(*checkpoint, 1, 127).value();
  EXPECT_NE(std::memcmp(a.gate.data, b.gate.data, 2048), 0);
  EXPECT_NE(std::memcmp(a.gate.data, a.up.data, 2048), 0);
  const MatrixView query = matrix(*checkpoint, "model.layers.0.self_attn.q_proj.weight", 4096, 2048);
  EXPECT_NEAR(rms(query, 64), 0.02, 0.001);
  EXPECT_NEAR(rms(a.down, 64), 0.02, 0.001);
  EXPECT_NE(std::memcmp(query.data, query.data + 2 * 2048, 2048), 0); // rows differ
  const std::vector<float> norm = checkpoint->vector("model.norm.weight", 2048).value();
  for (const float value : norm) EXPECT_NEAR(value, 1, 0.2);
}

TEST(RandomCheckpoint, KeepsProjectionsOfFp8ModelsInFp8) {
  const auto checkpoint = open({config_file("deepseek_v3_2"), 4, 1000});
  const MatrixView kv = matrix(*checkpoint, "model.layers.0.self_attn.kv_b_proj.weight", 32768, 512);
  EXPECT_EQ(kv.type, DType::F8E4M3);
  EXPECT_NEAR(rms(kv, 16), 0.02, 0.002);
  EXPECT_EQ(expert_weights(*checkpoint, 0, 0).value().down.type, DType::F8E4M3); // dense: the largest there is
  EXPECT_EQ(expert_weights(*checkpoint, 3, 256).value().gate.type, DType::F8E4M3);
  EXPECT_EQ(matrix(*checkpoint, "model.layers.3.mlp.gate.weight", 256, 7168).type, DType::Bf16);
  EXPECT_EQ(matrix(*checkpoint, "model.layers.0.self_attn.indexer.weights_proj.weight", 64, 7168).type, DType::Bf16);
  EXPECT_EQ(matrix(*checkpoint, "model.embed_tokens.weight", 1000, 7168).type, DType::Bf16);
}

} // namespace
} // namespace ductl::weights
