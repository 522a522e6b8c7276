// The recorded ids of real tokenizers, every one of them. The vocabularies aren't part of the source tree.
#include "engine/tokenizer/tokenizer.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

std::filesystem::path shared_folder() {
  const char* set = std::getenv("DUCTL_SHARED");
  return set != nullptr ? std::filesystem::path(set) : std::filesystem::path(DUCTL_SOURCE_DIR) / ".." / "shared";
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    folder_ = shared_folder() / "tokenizers" / GetParam();
    if (!std::filesystem::exists(folder_ / "tokenizer.json")) {
      GTEST_SKIP() << "no " << (folder_ / "tokenizer.json").string() << " on this machine (set DUCTL_SHARED)";
    }
    static std::map<std::string, std::unique_ptr<Tokenizer>> loaded; // once for all tests
    if (loaded[GetParam()] == nullptr) {
      auto tokenizer = load_tokenizer(folder_);
      ASSERT_TRUE(tokenizer) << tokenizer.error().text();
      loaded[GetParam()] = std::move(*tokenizer);
    }
    tokenizer_ = loaded[GetParam()].get();
  }
  std::filesystem::path folder_;
  const Tokenizer* tokenizer_ = nullptr;
};

TEST_P(GoldenTokenizer, GivesTheRecordedIdsAndRoundTrips) {
  std::ifstream golden(shared_folder() / "tokenizers" / ("golden_" + std::string(GetParam()) + ".jsonl"));
  ASSERT_TRUE(golden);
  int rows = 0;
  for (std::string line; std::getline(golden, line);) {
    const auto row = nlohmann::json::parse(line);
    const auto text = row["text"].get<std::string>();
    const std::vector<int> ids = tokenizer_->encode(text, SpecialTokens::Match);
    EXPECT_EQ(ids, row["ids"].get<std::vector<int>>()) << row["text"];
    EXPECT_EQ(tokenizer_->decode(ids) == text, row["roundtrip"].get<bool>()) << row["text"];
    ++rows;
  }
  EXPECT_EQ(rows, 427);
}

TEST_P(GoldenTokenizer, UserTextNeverYieldsAnAddedToken) {
  const auto file = nlohmann::json::parse(std::ifstream(folder_ / "tokenizer.json"));
  for (const auto& token : file["added_tokens"]) {
    const auto content = token["content"].get<std::string>();
    const std::string text = "a" + content + content + " b";
    for (const int id : tokenizer_->encode(text, SpecialTokens::Ignore)) {
      EXPECT_FALSE(tokenizer_->is_special(id)) << content;
      EXPECT_FALSE(tokenizer_->id_of(tokenizer_->bytes(id))) << content;
    }
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text, SpecialTokens::Ignore)), text);
    EXPECT_EQ(tokenizer_->encode(content, SpecialTokens::Match), std::vector<int>{token["id"].get<int>()});
  }
}

// Figures for a person; a limit wide enough for a busy machine catches what is quadratic.
TEST_P(GoldenTokenizer, LoadsAndEncodesFastEnough) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); };
  auto started = Clock::now();
  ASSERT_TRUE(load_tokenizer(folder_));
  RecordProperty("load_s", std::to_string(seconds(started)));
  std::string text;
  std::ifstream source(std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/real/northanger_abbey.txt");
  text.assign(std::istreambuf_iterator<char>(source), {});
  ASSERT_GT(text.size(), 50'000u);
  started = Clock::now();
  const auto ids = tokenizer_->encode(text, SpecialTokens::Ignore);
  RecordProperty("encode_mb_per_s", std::to_string(static_cast<double>(text.size()) / 1e6 / seconds(started)));
  EXPECT_EQ(tokenizer_->decode(ids), text);
  for (const char* unit : {"a", " ", "\n", "1", "!", "日", "\xCC\x81"}) {
    std::string run;
    while (run.size() < 1'000'000) run += unit;
    started = Clock::now();
    EXPECT_FALSE(tokenizer_->encode(run, SpecialTokens::Match).empty());
    EXPECT_LT(seconds(started), 20) << unit;
    RecordProperty("run_of_" + std::to_string(static_cast<unsigned char>(unit[0])) + "_s", std::to_string(seconds(started)));
  }
}

INSTANTIATE_TEST_SUITE_P(Real, GoldenTokenizer, testing::Values("qwen3", "deepseek_v3"),
                         [](const auto& tested) { return std::string(tested.param); });

} // namespace
} // namespace ductl::engine
