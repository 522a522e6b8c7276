// The shipped model through the programs that users run, against what torch made of the same weights
// (weights/duckling/reference.json, written by train/evaluate.py) and against the held-out questions.
#include "tests/support/local_flock.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ductl::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::filesystem::path kDuckling = DUCTL_SOURCE_DIR "/weights/duckling";

json model(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"ductl", "model"});
  ProgramOptions options;
  options.limit = 300s;
  const ProgramResult result = run_program(arguments, options);
  EXPECT_EQ(result.status, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

std::string joined(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

// Far beyond index_topk, and not the same tokens again and again.
std::string long_ids() {
  std::vector<int> ids;
  for (int i = 0; i < 600; ++i) ids.push_back((i * i * 31 + 17 * i) % 4000 + 20);
  return joined(ids);
}

std::vector<json> held_out_questions() {
  std::vector<json> questions;
  std::ifstream in(kDuckling / "heldout.jsonl");
  for (std::string line; std::getline(in, line);) questions.push_back(json::parse(line));
  return questions;
}

std::string sha256_of(const std::filesystem::path& file) { return run_program({"/usr/bin/sha256sum", file}).out.substr(0, 64); }

class Duckling : public ::testing::Test {
protected:
  double perplexity(const std::vector<std::string>& how) {
    std::vector<std::string> arguments{"perplexity", kDuckling, "--text", kDuckling / "heldout_text.txt"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const json result = model(arguments);
    EXPECT_EQ(result.at("tokens"), reference_.at("perplexity").at("tokens"));
    return result.at("perplexity").get<double>();
  }

  json reference_ = json::parse(text_of(kDuckling / "reference.json"));
};

TEST_F(Duckling, PerplexityIsTorchs) {
  const double torch = reference_.at("perplexity").at("perplexity").get<double>();
  const double host = perplexity({"--no-ducks"}), ducks = perplexity({"--ducks", "3"});
  std::printf("torch %.5f, in process %.5f (%+.5f %%), 3 ducks %.5f (%+.5f %%)\n", torch, host, 100 * (host / torch - 1), ducks,
              100 * (ducks / torch - 1));
  EXPECT_LE(std::abs(host / torch - 1), 0.001);
  EXPECT_LE(std::abs(ducks / torch - 1), 0.001); // every fp8 value is exact in fp9
}

// Computed by train/evaluate.py over all of the held-out text and questions; the weights must be those that were judged.
TEST_F(Duckling, WhatTorchMeasuredHoldsEveryBar) {
  EXPECT_EQ(reference_.at("every"), 1);
  EXPECT_EQ(reference_.at("model_sha256"), sha256_of(kDuckling / "model.safetensors"));
  ASSERT_GE(reference_.at("bars").size(), 10u);
  for (const json& bar : reference_.at("bars")) EXPECT_TRUE(bar.at("held").get<bool>()) << bar.dump();
}

TEST_F(Duckling, TheHeldOutQuestionsAreThoseOfTheRules) {
  const ProgramResult check = run_program({"/usr/bin/python3", kDuckling / "train/questions.py", "--check"});
  EXPECT_EQ(check.status, 0) << check.err;
}

TEST_F(Duckling, PromptsAreTokenisedAsTheTokenizersPackageDoes) {
  for (const json& example : reference_.at("examples")) {
    const auto question = example.at("question_ids").get<std::vector<int>>();
    ProgramOptions options;
    options.input = json{{"text", example.at("prompt")}}.dump() + "\n";
    const ProgramResult shown = run_program({"ductl", "model", "tokenize", kDuckling}, options);
    ASSERT_EQ(shown.status, 0) << shown.err;
    EXPECT_EQ(json::parse(shown.out).at("ids").get<std::vector<int>>(), question) << example.at("prompt");
  }
}

TEST_F(Duckling, LogitsAndGreedyTokensAreTorchs) {
  for (const json& example : reference_.at("examples")) {
    auto ids = example.at("ids").get<std::vector<int>>();
    const auto best = example.at("best_ids").get<std::vector<int>>();
    const auto expected = example.at("best_logits").get<std::vector<double>>();
    const json shown = model({"logits", kDuckling, "--ids", joined(ids)});
    const auto logits = shown.at("logits").at(0).get<std::vector<double>>();
    for (std::size_t i = 0; i < best.size(); ++i)
      EXPECT_NEAR(logits.at(static_cast<std::size_t>(best[i])), expected[i], 1e-3) << example.at("prompt");
    const auto greedy = example.at("greedy").get<std::vector<int>>();
    const std::size_t prompt = ids.size();
    ids.insert(ids.end(), greedy.begin(), greedy.end());
    const json rows = model({"logits", kDuckling, "--all", "--ids", joined(ids)}).at("logits");
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      const auto row = rows.at(prompt + i - 1).get<std::vector<double>>();
      EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), greedy[i]) << example.at("prompt") << " " << i;
    }
  }
}

// An expert has 8 slices: of more ducks some have nothing to do in a layer, and must not change a bit.
TEST_F(Duckling, LogitsHaveTheSameBitsForAnyNumberOfDucksWhileAttentionIsSparse) {
  std::string first;
  for (const char* ducks : {"1", "5", "8", "31"}) {
    const json result = model({"logits", kDuckling, "--ids", long_ids(), "--ducks", ducks});
    if (first.empty()) first = result.dump();
    EXPECT_EQ(result.dump(), first) << ducks << " ducks";
  }
}

TEST_F(Duckling, IndexKeysInFp8SelectNearlyTheSame) {
  const json floats = model({"logits", kDuckling, "--ids", long_ids()});
  EXPECT_NE(model({"logits", kDuckling, "--ids", long_ids(), "--index-keys", "fp8"}), floats); // the option arrives
  const double f32 = perplexity({}), fp8 = perplexity({"--index-keys", "fp8"});
  std::printf("index keys f32 %.4f, fp8 %.4f (%+.4f %%)\n", f32, fp8, 100 * (fp8 / f32 - 1));
  EXPECT_LE(std::abs(fp8 / f32 - 1), 0.005);
}

TEST_F(Duckling, AnswersHeldOutQuestionsThroughTheFlockAndItsDraftsAreAccepted) {
  LocalFlock flock({.model = kDuckling, .ducks = 4});
  ASSERT_EQ(flock.ductl({"up"}, 120s).status, 0);
  for (const char* temperature : {"0", "0.7"}) {
    ProgramOptions options = flock.options(500s);
    options.environment["DUCTL_INVENTORY"] = (flock.folder() / "flock.toml").string();
    // Bars for right answers hold for greedy ones; of drawn ones only the drafts are judged.
    std::vector<std::string> command{
        "/usr/bin/python3", kDuckling / "train/answers.py", "--ductl", DUCTL_BIN_DIR "/ductl", "--temperature", temperature};
    if (std::string(temperature) != "0") command.insert(command.end(), {"--every", "4", "--drafts-only"});
    const ProgramResult answers = run_program(command, options);
    std::printf("%s", answers.out.c_str());
    EXPECT_EQ(answers.status, 0) << answers.err;
  }
}

TEST_F(Duckling, TheTextIsTheSameWithGuessesAndWithout) {
  LocalFlock guessing({.model = kDuckling, .ducks = 3});
  LocalFlock plain({.model = kDuckling, .ducks = 2, .engine_toml = "speculation = \"off\"\nindex_keys = \"f32\""});
  ASSERT_EQ(guessing.ductl({"up"}, 120s).status, 0);
  ASSERT_EQ(plain.ductl({"up"}, 120s).status, 0);
  EXPECT_THAT(text_of(plain.state() / "log/duck-engine.log"), HasSubstr("the MTP layer guesses: no"));
  int accepted = 0;
  const std::vector<json> questions = held_out_questions();
  for (std::size_t i = 0; i < questions.size(); i += 37) {
    for (const char* temperature : {"0", "0.7"}) {
      const std::vector<std::string> run{"run",    questions[i].at("prompt"), "--max-tokens", "64",  "--temperature", temperature,
                                         "--seed", std::to_string(i),         "-o",           "json"};
      const json with = guessing.json(run), without = plain.json(run);
      EXPECT_EQ(with.at("answer"), without.at("answer")) << questions[i].at("prompt") << " at " << temperature;
      EXPECT_EQ(with.at("usage"), without.at("usage"));
      EXPECT_FALSE(without.at("stats").contains("drafted_tokens"));
      accepted += with.at("stats").value("accepted_tokens", 0);
    }
  }
  EXPECT_GT(accepted, 100);

  const std::filesystem::path csv = guessing.folder() / "tokens.csv";
  ASSERT_EQ(guessing.ductl({"run", "What is a duck?", "--csv", csv}).status, 0);
  std::istringstream lines(text_of(csv));
  int marked = 0, rows = -1;
  for (std::string line; std::getline(lines, line); ++rows) marked += rows >= 0 && line.ends_with(",1") ? 1 : 0;
  EXPECT_GT(marked, 0);
  EXPECT_LT(marked, rows);
}

TEST_F(Duckling, TheInventorysIndexKeysReachTheEngine) {
  LocalFlock flock({.model = kDuckling, .ducks = 1, .engine_toml = "index_keys = \"fp8\""});
  ASSERT_EQ(flock.ductl({"up"}, 120s).status, 0);
  EXPECT_THAT(text_of(flock.state() / "log/duck-engine.log"), HasSubstr("sparse attention beyond 256 positions, index keys fp8"));
  EXPECT_EQ(flock.ductl({"run", "What is a duck?"}).status, 0);
}

} // namespace
} // namespace ductl::test
