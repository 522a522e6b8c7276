#include "engine/bench/decode_bench.hpp"

#include "weights/random_checkpoint.hpp"

#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

weights::ModelConfig config_of(const std::string& name, int layers, int vocab) {
  const auto file = std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/weights/configs" / (name + ".json");
  const auto config = weights::random_config({file, layers, vocab});
  EXPECT_TRUE(config) << (config ? "" : config.error().text());
  return config.value_or(weights::ModelConfig{});
}

// 8 experts of 768 channels a layer; q 4096 x 2048, k and v 512 x 2048, o 2048 x 4096, router 128 x 2048, head.
TEST(BytesPerToken, OfQwen3Moe) {
  const TokenBytes bytes = bytes_per_token(config_of("qwen3_30b_a3b", 4, 32'000));
  EXPECT_EQ(bytes.ffn, 4u * 8 * 48 * 110'784);
  const std::uint64_t layer = 2 * 4096u * 2048 + 2 * 512u * 2048 + 128u * 2048 + 2 * 2048 + 2 * 128;
  EXPECT_EQ(bytes.host, 2 * (4 * layer + 2048 + 32'000ull * 2048));
}

// Three dense layers of 18432 channels, then 8 routed experts and a shared one of 2048.
TEST(BytesPerToken, OfDeepseek) {
  EXPECT_EQ(bytes_per_token(config_of("deepseek_v3", 3, 0)).ffn, 3u * 1152 * 344'768);
  EXPECT_EQ(bytes_per_token(config_of("deepseek_v3", 5, 0)).ffn, 3u * 1152 * 344'768 + 2u * 9 * 128 * 344'768);
}

// The head is the embedding there, and read whole.
TEST(BytesPerToken, OfTiedEmbeddings) {
  const auto config = config_of("qwen3_0_6b", 1, 1000);
  auto untied = config;
  untied.tied_embeddings = false;
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(bytes_per_token(config).host, bytes_per_token(untied).host);
}

} // namespace
} // namespace ductl::engine
