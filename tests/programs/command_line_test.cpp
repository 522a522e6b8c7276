// The command line: help, versions, slips, where options may stand, which inventory is used.
#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

namespace ductl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kLocal = DUCTL_SOURCE_DIR "/inventory/local.toml";
const std::string kFaulty = DUCTL_SOURCE_DIR "/tests/fuzz/corpus/inventory/faulty.toml";

class CommandLine : public ::testing::Test {
protected:
  ProgramResult ductl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ductl");
    ProgramOptions options;
    options.environment = environment_;
    options.folder = folder_.path();
    return run_program(arguments, options);
  }
  void write_inventory(const std::string& file) {
    const std::filesystem::path path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::copy_file(kLocal, path);
  }

  TempFolder folder_;
  std::map<std::string, std::string> environment_{{"HOME", folder_.path() / "home"},
                                                  {"XDG_CONFIG_HOME", folder_.path() / "config"},
                                                  {"XDG_STATE_HOME", folder_.path() / "state"},
                                                  {"DUCTL_INVENTORY", ""}};
};

TEST_F(CommandLine, TheVersionIsOneLine) {
  const ProgramResult text = ductl({"version"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, MatchesRegex("ductl [0-9]+\\.[0-9]+\\.[0-9]+ \\([^ ]+\\)\n"));
  EXPECT_EQ(text.err, "");
  const auto json = nlohmann::json::parse(ductl({"version", "-o", "json"}).out);
  EXPECT_EQ(json.at("schema"), "ductl/version/v1");
  EXPECT_THAT(text.out,
              AllOf(HasSubstr(json.at("version").get<std::string>()), HasSubstr(json.at("revision").get<std::string>())));
  EXPECT_EQ(ductl({"--version"}).status, 0);
}

TEST_F(CommandLine, HelpTeachesTheFirstStepsAtOnce) {
  // What it computes, not how long it waits for its turn: the machine may be busy.
  const auto computed = [] {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  auto best = std::chrono::microseconds::max();
  for (int i = 0; i < 20 && best >= std::chrono::milliseconds(100); ++i) {
    const auto start = computed();
    const ProgramResult help = ductl({"--help"});
    best = std::min(best, computed() - start);
    ASSERT_EQ(help.status, 0);
    for (const char* step : {"ductl validate", "ductl up", "ductl chat", "ductl run", "ductl status", "ductl down", "-i FILE"})
      ASSERT_THAT(help.out, HasSubstr(step));
    ASSERT_EQ(help.err, "");
  }
  EXPECT_LT(best, std::chrono::milliseconds(100));
}

TEST_F(CommandLine, EveryVerbHasHelpWithItsOptionsAndTheGlobalOnes) {
  for (const char* verb : {"up", "chat", "run", "status", "plan", "down", "validate", "model", "version"}) {
    const ProgramResult help = ductl({verb, "--help"});
    EXPECT_EQ(help.status, 0) << verb;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Usage:"), HasSubstr(verb), HasSubstr("--help"))) << verb;
    EXPECT_THAT(ductl({"--help"}).out, HasSubstr(verb));
  }
  EXPECT_THAT(ductl({"up", "--help"}).out, HasSubstr("--chat-format NAME"));
  EXPECT_THAT(ductl({"run", "--help"}).out, AllOf(HasSubstr("--csv FILE"), HasSubstr("--temperature T")));
  EXPECT_THAT(ductl({"model", "perplexity", "--help"}).out, HasSubstr("--ducks N"));
}

TEST_F(CommandLine, AnUnknownVerbOrOptionIs64AndNamesTheNearest) {
  const auto expect = [&](const std::vector<std::string>& arguments, const char* suggestion) {
    const ProgramResult result = ductl(arguments);
    EXPECT_EQ(result.status, 64) << arguments.front();
    EXPECT_THAT(result.err, HasSubstr(suggestion));
    EXPECT_EQ(result.out, "");
  };
  expect({"upp"}, "did you mean up?");
  expect({"statsu"}, "did you mean status?");
  expect({"frobnicate"}, "`ductl --help` shows what there is");
  expect({"model", "tokenise", "x"}, "did you mean tokenize?");
  expect({"up", "--chat-fromat", "x"}, "did you mean --chat-format?");
  expect({"plan", "--invntory=x"}, "did you mean --inventory?");
  expect({"status", "--frobnicate"}, "`ductl status --help`");
  expect({"down", "now"}, "one word too many");
  expect({"up", "--chat-format", ""}, "the name is empty");
  expect({"status", "-i", ""}, "the file name is empty");
  expect({"upp", "--help"}, "did you mean up?");
  expect({}, "`ductl --help`");
  expect({"run", "--temperature", "11", "x"}, "--temperature");
}

TEST_F(CommandLine, HelpIsAVerbToo) {
  EXPECT_EQ(ductl({"help"}).out, ductl({"--help"}).out);
  EXPECT_EQ(ductl({"help", "run"}).out, ductl({"run", "--help"}).out);
  EXPECT_EQ(ductl({"help", "model", "show"}).out, ductl({"model", "show", "--help"}).out);
  EXPECT_EQ(ductl({"help", "up"}).status, 0);
  const ProgramResult slip = ductl({"help", "upp"});
  EXPECT_EQ(slip.status, 64);
  EXPECT_THAT(slip.err, HasSubstr("did you mean up?"));
}

TEST_F(CommandLine, WhatCannotBeWrittenIsAFailureOfModelCommandsToo) {
  const std::filesystem::path model = folder_.path() / "model";
  std::filesystem::create_directories(model);
  write_tiny_checkpoint({}, model);
  ProgramOptions options;
  options.environment = environment_;
  const std::string program = DUCTL_BIN_DIR "/ductl";
  const ProgramResult shown =
      run_program({"/bin/bash", "-c", program + " model show " + model.string() + " > /dev/full"}, options);
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.err, HasSubstr("D0507"));
}

TEST_F(CommandLine, AFaultOfAModelCommandIsJsonToo) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"show", "/nonexistent"},
                                                {"logits", "/nonexistent", "--ids", "1,2"},
                                                {"tokenize", "/nonexistent"},
                                                {"perplexity", "/nonexistent", "--text", kLocal}}) {
    std::vector<std::string> all{"model"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(ductl(all).out, "") << words.front();
    all.insert(all.end(), {"-o", "json"});
    const ProgramResult result = ductl(all);
    EXPECT_EQ(result.status, 1) << words.front();
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << words.front() << result.out;
    EXPECT_EQ(json.at("schema"), "ductl/error/v1");
    EXPECT_THAT(json.at("error").at("message").get<std::string>(), Not(""));
  }
}

TEST_F(CommandLine, AModelOnAFaultyInventoryTellsAllOfItsFaults) {
  const ProgramResult shown = ductl({"model", "show", "/nonexistent", "-i", kFaulty}), validated = ductl({"validate", kFaulty});
  EXPECT_EQ(shown.status, 64);
  EXPECT_THAT(shown.err, StartsWith("inventory: "));
  const auto faults = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("error[D01"); at != std::string::npos; at = text.find("error[D01", at + 1)) ++count;
    return count;
  };
  EXPECT_GT(faults(shown.err), 2u);
  EXPECT_EQ(faults(shown.err), faults(validated.err));
}

TEST_F(CommandLine, TokenIdsThatAreNoneAreRefusedWithAnExample) {
  const std::filesystem::path model = folder_.path() / "model";
  std::filesystem::create_directories(model);
  write_tiny_checkpoint({}, model);
  for (const char* ids : {"", "x", "1,,2", "1,x"}) {
    const ProgramResult result = ductl({"model", "logits", model.string(), "--ids", ids});
    EXPECT_EQ(result.status, 64) << ids;
    EXPECT_THAT(result.err, AllOf(HasSubstr("a token id is"), HasSubstr("--ids 1,2,3"), Not(HasSubstr("duck-engine")))) << ids;
  }
}

TEST_F(CommandLine, AStateFolderThatCannotBeLookedIntoIsNoEmptyFlock) {
  std::ofstream(folder_.path() / "file") << "x";
  environment_["XDG_STATE_HOME"] = folder_.path() / "file";
  for (const char* verb : {"status", "down", "up", "plan"}) {
    const ProgramResult result = ductl({"-i", kLocal, verb});
    EXPECT_EQ(result.status, 1) << verb;
    EXPECT_THAT(result.err, AllOf(HasSubstr("D0503"), HasSubstr("XDG_STATE_HOME"))) << verb;
  }
}

TEST_F(CommandLine, AFaultIsJsonWhenAskedFor) {
  const ProgramResult result = ductl({"-o", "json", "upp"});
  EXPECT_EQ(result.status, 64);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "ductl/error/v1");
  EXPECT_EQ(json.at("error").at("code"), "D0500");
}

TEST_F(CommandLine, SamplingOutsideTheEnginesLimitsIsRefusedBeforeAnythingIsSent) {
  for (const auto& [option, wrong] : {std::pair{"--temperature", "10.1"},
                                      {"--temperature", "nan"},
                                      {"--temperature", "-1"},
                                      {"--top-p", "1.5"},
                                      {"--min-p", "nan"},
                                      {"--top-k", "16777217"},
                                      {"--repetition-penalty", "0"},
                                      {"--repetition-penalty", "10.5"},
                                      {"--seed", "-1"},
                                      {"--seed", "18446744073709551616"}}) {
    const ProgramResult result = ductl({"run", "x", std::string(option) + "=" + wrong});
    EXPECT_EQ(result.status, 64) << option << " " << wrong;
    EXPECT_THAT(result.err, HasSubstr(option)) << wrong;
  }
}

TEST_F(CommandLine, ValidateTellsGoodFilesFromBadOnes) {
  const ProgramResult good = ductl({"validate", kLocal});
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.out, HasSubstr("no faults"));
  const ProgramResult home = ductl({"validate", DUCTL_SOURCE_DIR "/inventory/home.toml"});
  EXPECT_EQ(home.status, 0);
  EXPECT_THAT(home.err, AllOf(HasSubstr("note: "), HasSubstr("fanout = \"broadcast\"")));
  const ProgramResult bad = ductl({"validate", kFaulty});
  EXPECT_EQ(bad.status, 64);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, AllOf(HasSubstr("faulty.toml:"), HasSubstr("error[D01"), HasSubstr("  --> ")));
  const auto json = ductl({"validate", kFaulty, "-o", "json"});
  EXPECT_EQ(json.status, 64);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document.at("schema"), "ductl/validate/v1");
  EXPECT_EQ(document.at("valid"), false);
  EXPECT_GT(document.at("errors").size(), 2u);                                              // all of them in one pass
  for (const auto& error : document.at("errors")) EXPECT_NE(error.at("next"), "") << error; // also where it stands at the caret
  EXPECT_EQ(ductl({"validate", "no-such.toml"}).status, 64);
}

TEST_F(CommandLine, GlobalOptionsStandBeforeOrAfterTheVerb) {
  const ProgramResult before = ductl({"-o", "jsonl", "-i", kLocal, "--no-color", "validate"});
  const ProgramResult after = ductl({"validate", "-o", "jsonl", "-i", kLocal, "--no-color"});
  EXPECT_EQ(before.status, 0) << before.err;
  EXPECT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(before.out, after.out);
  EXPECT_EQ(std::count(before.out.begin(), before.out.end(), '\n'), 1);
}

TEST_F(CommandLine, TheInventoryIsTheFirstOfItsPlacesAndNamedOnStderr) {
  const std::filesystem::path root = folder_.path();
  for (const char* file : {"flock.toml", "inventory/local.toml", "config/ductl/flock.toml", "home/.config/ductl/flock.toml"})
    write_inventory(file);
  write_inventory("named.toml");
  write_inventory("variable.toml");
  environment_["DUCTL_INVENTORY"] = root / "variable.toml";
  const auto named = [&](const std::vector<std::string>& arguments = {"validate"}) {
    const ProgramResult result = ductl(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err.substr(0, result.err.find('\n'));
  };
  EXPECT_EQ(named({"-i", "named.toml", "validate"}), "inventory: named.toml (-i)");
  EXPECT_EQ(named(), "inventory: " + (root / "variable.toml").string() + " ($DUCTL_INVENTORY)");
  environment_["DUCTL_INVENTORY"] = "";
  EXPECT_THAT(named(), StartsWith("inventory: flock.toml"));
  std::filesystem::remove(root / "flock.toml");
  EXPECT_THAT(named(), StartsWith("inventory: inventory/local.toml"));
  std::filesystem::remove(root / "inventory/local.toml");
  EXPECT_THAT(named(), StartsWith("inventory: " + (root / "config/ductl/flock.toml").string()));
  environment_["XDG_CONFIG_HOME"] = "";
  EXPECT_THAT(named(), StartsWith("inventory: " + (root / "home/.config/ductl/flock.toml").string()));
  environment_["DUCTL_INVENTORY"] = root / "gone.toml"; // what was named is never replaced by another
  const ProgramResult gone = ductl({"status"});
  EXPECT_EQ(gone.status, 64);
  EXPECT_THAT(gone.err, HasSubstr("gone.toml"));
}

TEST_F(CommandLine, WithoutAnInventoryThePlacesAreListed) {
  if (std::filesystem::exists("/etc/ductl/flock.toml")) GTEST_SKIP() << "this machine has /etc/ductl/flock.toml";
  const ProgramResult result = ductl({"up"});
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.err, AllOf(HasSubstr("$DUCTL_INVENTORY"), HasSubstr("./flock.toml"), HasSubstr("/etc/ductl/flock.toml")));
}

} // namespace
} // namespace ductl::test
