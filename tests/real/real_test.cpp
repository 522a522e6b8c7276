// A real model through the programs that users run, against what transformers and tokenizers make of the same folder
// (reference.json, tokens.jsonl; docs/smollm2.md).
#include "tests/support/local_flock.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ductl::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

const std::string kModel = DUCTL_SMOLLM2;
const std::filesystem::path kFolder = std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/real";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Real : public ::testing::Test {
protected:
  void SetUp() override {
    if (!std::filesystem::exists(kModel + "/model.safetensors")) GTEST_SKIP() << "run tests/real/fetch_smollm2 " << kModel;
  }

  json model(std::vector<std::string> arguments, std::chrono::seconds limit = 600s) {
    arguments.insert(arguments.begin(), {"ductl", "model"});
    ProgramOptions options;
    options.limit = limit;
    const ProgramResult result = run_program(arguments, options);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }

  double perplexity(const std::vector<std::string>& how) {
    std::vector<std::string> arguments{"perplexity", kModel, "--text", (kFolder / "northanger_abbey.txt").string()};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const json result = model(arguments, 1000s);
    EXPECT_EQ(result.at("schema"), "ductl/perplexity/v1");
    EXPECT_EQ(result.at("tokens"), reference_.at("tokens"));
    return result.at("perplexity").get<double>();
  }

  json reference_ = json::parse(read(kFolder / "reference.json"));
};

TEST_F(Real, TokenizesEveryTextAsTheReferenceDoes) {
  std::istringstream rows(read(kFolder / "tokens.jsonl"));
  std::string texts, expected;
  for (std::string row; std::getline(rows, row);) {
    const json value = json::parse(row);
    texts += json{{"text", value.at("text")}}.dump() + "\n";
    expected += json{{"ids", value.at("ids")}}.dump() + "\n";
  }
  ProgramOptions options;
  options.input = texts;
  const ProgramResult result = run_program({"ductl", "model", "tokenize", kModel}, options);
  ASSERT_EQ(result.status, 0) << result.err;
  std::istringstream ours(result.out), theirs(expected);
  int count = 0;
  for (std::string a, b; std::getline(theirs, b); ++count) {
    ASSERT_TRUE(std::getline(ours, a)) << "row " << count;
    EXPECT_EQ(json::parse(a), json::parse(b)) << "row " << count;
  }
  EXPECT_GE(count, 300);
}

TEST_F(Real, AnswersParisThroughFourDucks) {
  LocalFlock flock({.model = kModel, .ducks = 4});
  const ProgramResult up = flock.ductl({"up", "-o", "json"}, 120s);
  ASSERT_EQ(up.status, 0) << up.err;
  EXPECT_TRUE(json::parse(up.out).at("changed").get<bool>());
  const ProgramResult run = flock.ductl({"run", reference_.at("question"), "--max-tokens", "24", "--temperature", "0"}, 120s);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("Paris"), std::string::npos) << run.out;
  std::printf("%s%s", run.out.c_str(), run.err.c_str());
  LocalFlock many({.model = kModel, .ducks = 31});
  ASSERT_EQ(many.ductl({"up"}, 120s).status, 0);
  EXPECT_EQ(many.ductl({"run", reference_.at("question"), "--max-tokens", "24", "--temperature", "0"}, 120s).out, run.out);
  const ProgramResult again = flock.ductl({"up", "-o", "json"}, 60s);
  const json nothing = json::parse(again.out);
  EXPECT_FALSE(nothing.at("changed").get<bool>());
  EXPECT_EQ(nothing.at("actions"), 0);
  EXPECT_EQ(nothing.at("bytes_sent"), 0);
}

TEST_F(Real, GreedyAnswerIsTheReferences) {
  std::string ids;
  for (const int id : reference_.at("prompt_ids").get<std::vector<int>>()) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  for (const int expected : reference_.at("answer_ids").get<std::vector<int>>()) {
    const json result = model({"logits", kModel, "--no-ducks", "--ids", ids});
    const auto logits = result.at("logits").at(0).get<std::vector<double>>();
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), expected);
    ids += "," + std::to_string(expected);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST_F(Real, LogitsHaveTheSameBitsFor1And2And4And31And32Ducks) {
  const std::vector<std::string> arguments{"logits", kModel, "--all", "--ids",
                                           "1,9690,198,2683,359,253,5356,5646,11173,3365,3511,308"};
  std::string first;
  for (const char* ducks : {"1", "2", "4", "31", "32"}) {
    std::vector<std::string> all{"ductl", "model"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--ducks", ducks});
    ProgramOptions options;
    options.limit = 180s;
    const ProgramResult result = run_program(all, options);
    ASSERT_EQ(result.status, 0) << ducks << " ducks: " << result.err;
    if (first.empty()) first = result.out;
    EXPECT_EQ(result.out, first) << ducks << " ducks";
  }
  EXPECT_EQ(json::parse(first).at("logits").size(), 12u);
}

TEST_F(Real, ThirtyTwoDucksOnThisMachineDecodeAToken_A_SecondWithoutNackStorms) {
  LocalFlock flock({.model = kModel, .ducks = 32});
  const ProgramResult up = flock.ductl({"up"}, 180s);
  ASSERT_EQ(up.status, 0) << up.err;
  const ProgramResult run =
      flock.ductl({"run", "Tell me about ducks.", "--max-tokens", "32", "--temperature", "0", "-o", "json"}, 120s);
  ASSERT_EQ(run.status, 0) << run.err;
  std::printf("%s\n", run.out.c_str());
  const json result = json::parse(run.out);
  const json& stats = result.at("stats");
  EXPECT_GE(stats.at("decode_tokens_per_s").get<double>(), 1.0);
  const auto nacks = stats.at("nacks_sent").get<std::uint64_t>() + stats.at("nacks_received").get<std::uint64_t>();
  const auto replies = stats.at("rounds").get<std::uint64_t>() * 32;
  ASSERT_GT(replies, 0u);
  EXPECT_LT(static_cast<double>(nacks), 0.02 * static_cast<double>(replies));
}

TEST_F(Real, PerplexityInProcessIsTheReferences) {
  const double reference = reference_.at("perplexity").get<double>();
  const double host = perplexity({"--no-ducks"});
  std::printf("transformers %.6f, in process %.6f: %+.4f %%\n", reference, host, 100 * (host / reference - 1));
  EXPECT_LE(std::abs(host / reference - 1), 0.0005);
}

TEST_F(Real, PerplexityThroughFourDucksStaysNear) {
  const double host = reference_.at("perplexity").get<double>(); // what --no-ducks is held to within 0.05 %
  const double ducks = perplexity({"--ducks", "4"});
  const double bf16 = perplexity({"--ducks", "4", "--hidden", "bf16"});
  std::printf("reference %.6f, 4 ducks %.6f (%+.3f %%), bf16 hidden %.6f (%+.3f %%)\n", host, ducks, 100 * (ducks / host - 1),
              bf16, 100 * (bf16 / ducks - 1));
  EXPECT_LE(std::abs(ducks / host - 1), 0.03);
  EXPECT_LE(bf16 / ducks - 1, 0.002);
}

} // namespace
} // namespace ductl::test
