#include "tests/end_to_end/tiny_flock.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <memory>
#include <unistd.h>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct TemporaryFlockTest : ::testing::Test {
  TempFolder folder;
  std::string model = (folder.path() / "model").string();
  std::filesystem::path tmp = folder.path() / "tmp";

  void SetUp() override {
    write_tiny_model(model);
    std::filesystem::create_directories(tmp);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(tmp));
    EXPECT_THAT(processes_naming(folder.path().string()), IsEmpty());
  }

  ProgramOptions options() const {
    ProgramOptions options;
    options.environment = {{"XDG_STATE_HOME", (folder.path() / "state").string()},
                           {"XDG_CACHE_HOME", (folder.path() / "cache").string()},
                           {"TMPDIR", tmp.string()}};
    return options;
  }
  std::vector<std::string> logits(const std::vector<std::string>& how) const {
    std::vector<std::string> argv{"ductl", "model", "logits", model, "--ids", "72,101,108,108,111"};
    argv.insert(argv.end(), how.begin(), how.end());
    return argv;
  }
  // A command in the midst of its work, which no machine ends before it is told to: a long text through two ducks.
  std::unique_ptr<RunningProgram> compute_for_minutes() const {
    const std::string text = (folder.path() / "text").string();
    {
      std::ofstream out(text);
      for (int i = 0; i < 50'000; ++i) out << "The quick brown fox jumps over the lazy dog.\n";
    }
    auto program = std::make_unique<RunningProgram>(
        std::vector<std::string>{"ductl", "model", "perplexity", model, "--text", text, "--ducks", "2"}, options());
    const auto computes = [&] {
      const auto all = processes_naming(tmp.string());
      return std::any_of(all.begin(), all.end(), [](const auto& line) { return line.find("duck-engine") != std::string::npos; });
    };
    for (int i = 0; i < 20'000 && !computes(); ++i) usleep(1000);
    EXPECT_TRUE(computes());
    return program;
  }
  nlohmann::json json(const std::vector<std::string>& argv) const {
    const ProgramResult result = run_program(argv, options());
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
};

TEST_F(TemporaryFlockTest, WhenItFailsTheEndsOfTheLogsAreShownBeforeTheyGo) {
  const auto busy = compute_for_minutes();
  const auto folder_of_flock = std::filesystem::directory_iterator(tmp)->path();
  const auto record = nlohmann::json::parse(text_of(folder_of_flock / "run/duck02.json"));
  ASSERT_EQ(kill(record.at("pid").get<int>(), SIGKILL), 0);
  const ProgramResult result = busy->wait();
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("last lines of the temporary flock's logs"));
  EXPECT_THAT(result.err, HasSubstr((folder_of_flock / "log/duck02.log").string() + " (its process has ended):\n  "));
}

TEST_F(TemporaryFlockTest, LogitsThatAreNotFiniteLeaveStdoutEmpty) {
  const std::vector<std::uint16_t> largest(64, 0x7f7f); // of bf16
  overwrite_tensor(std::filesystem::path(model) / "model.safetensors", "model.norm.weight", 0, std::as_bytes(std::span(largest)));
  const ProgramResult result = run_program(logits({"--no-ducks"}), options());
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("not all finite"));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(TemporaryFlockTest, GivesTheSameBitsWithAnyNumberOfDucks) {
  const auto one = json(logits({"--ducks", "1", "--all"}));
  EXPECT_EQ(one.at("schema"), "ductl/logits/v1");
  EXPECT_EQ(one.at("positions").size(), 5u);
  EXPECT_EQ(json(logits({"--ducks", "2", "--all"})), one);
  EXPECT_EQ(json(logits({"--ducks", "5", "--all"})), one);
}

TEST_F(TemporaryFlockTest, IsNearTheUnquantisedModel) {
  const auto exact = json(logits({"--no-ducks"})).at("logits").at(0), ducks = json(logits({"--ducks", "3"})).at("logits").at(0);
  ASSERT_EQ(exact.size(), static_cast<std::size_t>(kTinyVocab));
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error = std::max(error, std::abs(exact[i].get<double>() - ducks[i].get<double>()));
    largest = std::max(largest, std::abs(exact[i].get<double>()));
  }
  EXPECT_LT(error, 0.1 * largest); // fp9 weights
  EXPECT_GT(error, 0);
}

TEST_F(TemporaryFlockTest, TwoAtOnceDoNotHearEachOther) {
  RunningProgram first(logits({"--ducks", "3", "--all"}), options()), second(logits({"--ducks", "2", "--all"}), options());
  const ProgramResult a = first.wait(), b = second.wait();
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_EQ(b.status, 0) << b.err;
  EXPECT_EQ(a.out, b.out);
  EXPECT_THAT(a.out, Not(IsEmpty()));
}

TEST_F(TemporaryFlockTest, GoesWhenTheCommandIsTerminated) {
  const auto busy = compute_for_minutes();
  busy->signal(SIGTERM);
  EXPECT_EQ(busy->wait().status, 128 + SIGTERM);
}

TEST_F(TemporaryFlockTest, GoesWhenTheTerminalIsClosed) {
  const auto busy = compute_for_minutes();
  busy->signal(SIGHUP);
  EXPECT_EQ(busy->wait().status, 128 + SIGHUP);
}

TEST_F(TemporaryFlockTest, GoesHoweverOftenSomebodyPressesCtrlC) {
  const auto busy = compute_for_minutes();
  for (int i = 0; i < 200; ++i) { // at every step of its way down
    busy->signal(SIGINT);
    usleep(2000);
  }
  EXPECT_EQ(busy->wait().status, 128 + SIGINT);
}

TEST_F(TemporaryFlockTest, GoesWhenTheModelIsRefused) {
  std::filesystem::resize_file(folder.path() / "model/model.safetensors", 1000);
  const ProgramResult result = run_program(logits({"--ducks", "2"}), options());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("model.safetensors"));
}

TEST_F(TemporaryFlockTest, PassesTheTokenizersCommandsThrough) {
  ProgramOptions with_input = options();
  with_input.input = "{\"text\":\"Hi<|im_end|>\"}\n{\"text\":\"\"}\n";
  const ProgramResult result = run_program({"ductl", "model", "tokenize", model}, with_input);
  EXPECT_EQ(result.out, "{\"ids\":[72,105,258]}\n{\"ids\":[]}\n") << result.err;
  EXPECT_EQ(run_program({"ductl", "model", "show", model}, options()).status, 0);
}

} // namespace
} // namespace ductl::test
