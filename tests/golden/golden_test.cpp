// The bars: float hidden states 1e-4 and the same greedy tokens; bf16 hidden states 1e-2 and the same greedy tokens where the
// reference's best two are more than 2e-2 apart (relative to the position's largest logit).
#include "tests/golden/golden_case.hpp"

#include "engine/moe/host_ffn.hpp"
#include "tests/support/files.hpp"
#include "tests/support/in_process_flock.hpp"

#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ductl::test {
namespace {

constexpr double kFloatBar = 1e-4, kBf16Bar = 1e-2;

class Golden : public ::testing::TestWithParam<std::string> {
protected:
  void expect_close(engine::Ffn& ffn, double bar, double gap, bool near_ties = true) {
    for (const GoldenPrompt& prompt : golden_.prompts) {
      if (prompt.near_tie && !near_ties) continue;
      const int chunk = prompt.stepwise ? 1 : static_cast<int>(prompt.ids.size());
      const Deviation deviation = compare(run_engine(*golden_.checkpoint, ffn, prompt.ids, chunk), prompt, gap);
      EXPECT_LE(deviation.worst, bar) << prompt.ids.size() << " tokens" << (prompt.stepwise ? ", stepwise" : "");
      EXPECT_EQ(deviation.greedy_wrong, 0) << prompt.ids.size() << " tokens";
      worst_ = std::max(worst_, deviation.worst);
    }
    RecordProperty("worst", std::to_string(worst_));
    std::printf("worst deviation %.2e (bar %.0e)\n", worst_, bar);
  }

  GoldenCase golden_ = load_golden_case(GetParam());
  double worst_ = 0;
};

// The suite takes what it finds; here is what it must find.
TEST(GoldenCases, AreAllThere) {
  const std::vector<std::string> expected{
      "deepseek_v3",         "deepseek_v32", "deepseek_v32_fp8", "deepseek_v3_fp8", "deepseek_v3_fp8_blocks",
      "deepseek_v3_plain_q", "llama_fp8",    "llama_sharded",    "llama_tied",      "qwen3",
      "qwen3_f32",           "qwen3_fp8",    "qwen3_moe",        "qwen3_moe_fp8",   "qwen3_moe_fp8_f32"};
  EXPECT_EQ(golden_case_names(), expected);
}

TEST_P(Golden, HostFfn) {
  auto ffn = engine::make_host_ffn(*golden_.checkpoint, 2);
  ASSERT_TRUE(ffn) << ffn.error().text();
  expect_close(**ffn, kFloatBar, 0);
}

TEST_P(Golden, FloatHiddenThrough1Duck2Ducks3Ducks5Ducks) {
  for (const int ducks : {1, 2, 3, 5}) {
    SCOPED_TRACE(ducks);
    InProcessFlock flock(*golden_.checkpoint, {.ducks = ducks});
    expect_close(flock.ffn(), kFloatBar, 0);
    EXPECT_EQ(flock.ffn().stats().repeats, 0u) << "the fixed-point range is too small for ordinary activations";
  }
}

TEST_P(Golden, Bf16HiddenThrough3Ducks) {
  InProcessFlock flock(*golden_.checkpoint, {.ducks = 3, .bf16_hidden = true});
  expect_close(flock.ffn(), kBf16Bar, 2e-2, false);
}

TEST_P(Golden, SameBitsForAnyDucksChunksAndThreads) {
  const std::vector<int>& ids = golden_.prompts.at(3).ids;
  ASSERT_EQ(ids.size(), 90u);
  std::vector<std::vector<float>> first;
  for (const int ducks : {1, 4, 31}) {
    InProcessFlock flock(*golden_.checkpoint, {.ducks = ducks});
    for (const int chunk : {1, 7, 64, static_cast<int>(ids.size())}) {
      const auto rows = run_engine(*golden_.checkpoint, flock.ffn(), ids, chunk, chunk == 7 ? 1 : 2);
      if (first.empty()) first = rows;
      EXPECT_EQ(rows, first) << ducks << " ducks, chunks of " << chunk;
    }
  }
}

TEST_P(Golden, SameBitsForAnyThreadsOfADuckAndEitherFormat) {
  const std::vector<int>& ids = golden_.prompts.at(3).ids;
  InProcessFlock plain(*golden_.checkpoint, {.ducks = 2, .format = "fp9"});
  const auto first = run_engine(*golden_.checkpoint, plain.ffn(), ids, 64);
  for (const agent::ThreadPlan& threads :
       {agent::ThreadPlan{.threads = 3}, agent::ThreadPlan{.threads = 2, .network_apart = true, .own_cores = true}}) {
    InProcessFlock flock(*golden_.checkpoint, {.ducks = 2, .threads = threads}); // e4m3 where the checkpoint is fp8
    EXPECT_EQ(run_engine(*golden_.checkpoint, flock.ffn(), ids, 64), first) << text(threads);
  }
}

// 15 bits of each 128 sums: about as good as bf16 hidden states, and for one placement always the same.
TEST_P(Golden, CompactRepliesThrough3Ducks) {
  InProcessFlock flock(*golden_.checkpoint, {.ducks = 3, .compact_reply = true});
  expect_close(flock.ffn(), kBf16Bar, 2e-2, false);
  const std::vector<int>& ids = golden_.prompts.at(3).ids;
  const auto first = run_engine(*golden_.checkpoint, flock.ffn(), ids, 64);
  EXPECT_EQ(run_engine(*golden_.checkpoint, flock.ffn(), ids, 7), first);
  InProcessFlock again(*golden_.checkpoint, {.ducks = 3, .compact_reply = true, .threads = {.threads = 2}});
  EXPECT_EQ(run_engine(*golden_.checkpoint, again.ffn(), ids, 1), first);
}

// DeepSeek-V3.2: what float64 alone computes (deepseek_reference.py), and where sparse attention begins.
class GoldenSparse : public Golden {
protected:
  // The case's weights under another config.json.
  std::vector<std::vector<float>> run_with(const std::function<void(nlohmann::json&)>& change, const std::vector<int>& ids) {
    const TempFolder folder;
    std::filesystem::copy(golden_.checkpoint->folder(), folder.path(), std::filesystem::copy_options::recursive);
    auto config = nlohmann::json::parse(text_of(folder.path() / "config.json"));
    change(config);
    std::ofstream(folder.path() / "config.json") << config;
    const auto checkpoint = weights::open_checkpoint(folder.path());
    if (!checkpoint) throw std::runtime_error(checkpoint.error().text());
    auto ffn = engine::make_host_ffn(**checkpoint, 2);
    if (!ffn) throw std::runtime_error(ffn.error().text());
    return run_engine(**checkpoint, **ffn, ids, 64);
  }
};

TEST_P(GoldenSparse, TheMtpLayerForeseesWhatTheReferenceDoes) {
  ASSERT_FALSE(golden_.drafts.empty());
  for (const int ducks : {1, 3}) {
    InProcessFlock flock(*golden_.checkpoint, {.ducks = ducks});
    for (const GoldenPrompt& prompt : golden_.drafts) {
      const auto rows = run_drafts(*golden_.checkpoint, flock.ffn(), prompt.ids, 64);
      const Deviation deviation = compare(rows, prompt, 0);
      EXPECT_LE(deviation.worst, kFloatBar) << prompt.ids.size() << " tokens";
      EXPECT_EQ(deviation.greedy_wrong, 0);
      std::printf("worst deviation %.2e (bar %.0e)\n", deviation.worst, kFloatBar);
      for (const int chunk : {1, 7}) EXPECT_EQ(run_drafts(*golden_.checkpoint, flock.ffn(), prompt.ids, chunk), rows) << chunk;
    }
  }
}

TEST_P(GoldenSparse, Fp8KeysOfTheIndexer) {
  ASSERT_FALSE(golden_.fp8_keys.empty());
  auto ffn = engine::make_host_ffn(*golden_.checkpoint, 2);
  ASSERT_TRUE(ffn) << ffn.error().text();
  for (const GoldenPrompt& prompt : golden_.fp8_keys) {
    const auto rows = run_engine(*golden_.checkpoint, **ffn, prompt.ids, 64, 2, inventory::IndexKeys::Fp8);
    const Deviation deviation = compare(rows, prompt, 0);
    EXPECT_LE(deviation.worst, kFloatBar) << prompt.ids.size() << " tokens";
    EXPECT_EQ(deviation.greedy_wrong, 0);
    std::printf("worst deviation %.2e (bar %.0e)\n", deviation.worst, kFloatBar);
    EXPECT_EQ(run_engine(*golden_.checkpoint, **ffn, prompt.ids, 7, 1, inventory::IndexKeys::Fp8), rows);
  }
}

TEST_P(GoldenSparse, UpToTopkItIsDenseAttentionBitForBitAndBeyondItIsNot) {
  const std::vector<int>& ids = golden_.prompts.at(3).ids;
  const auto sparse = run_with([](auto&) {}, ids);
  const auto all_positions = run_with([](auto& config) { config["index_topk"] = 512; }, ids);
  const auto no_indexer = run_with(
      [](auto& config) {
        config["model_type"] = "deepseek_v3";
        for (const char* key : {"index_topk", "index_n_heads", "index_head_dim"}) config.erase(key);
      },
      ids);
  EXPECT_EQ(all_positions, no_indexer);
  const auto topk = static_cast<std::size_t>(golden_.checkpoint->config().indexer.topk);
  for (std::size_t position = 0; position < ids.size(); ++position)
    EXPECT_EQ(sparse[position] == no_indexer[position], position < topk) << position;
}

INSTANTIATE_TEST_SUITE_P(Case, GoldenSparse, ::testing::Values("deepseek_v32", "deepseek_v32_fp8"),
                         [](const auto& each) { return each.param; });
INSTANTIATE_TEST_SUITE_P(Case, Golden, ::testing::ValuesIn(golden_case_names()), [](const auto& each) { return each.param; });

} // namespace
} // namespace ductl::test
