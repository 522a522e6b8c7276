// `ductl run`: where the prompt comes from, what is sent, what is written where.
#include "tests/programs/fake_engine.hpp"

#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Run, StdoutHasTheAnswerAndStderrTheRest) {
  const FakeEngine engine;
  const ProgramResult result = engine.ductl({"run", "hi"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "echo: hi\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("inventory: "), HasSubstr("time 1.25s")));
}

TEST(Run, APromptOfStdin) {
  const FakeEngine engine;
  EXPECT_EQ(engine.ductl({"run", "-", "--system", "be brief"}, "two\nlines\n").status, 0);
  EXPECT_EQ(engine.last_message(), "two\nlines"); // the last newline ends the last line
  EXPECT_EQ(engine.requests().back().at("messages")[0].at("content"), "be brief");
  EXPECT_EQ(engine.ductl({"run", "-"}, "").status, 64); // nothing asked
  EXPECT_EQ(engine.ductl({"run", "-"}, " \n\n").status, 64);
}

TEST(Run, AnUnquotedPromptHintsAtQuotes) {
  const FakeEngine engine;
  const ProgramResult result = engine.ductl({"run", "What", "is", "this?"});
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.err, HasSubstr("in quotes"));
  EXPECT_TRUE(engine.requests().empty());
}

TEST(Run, APromptThatBeginsWithADashStandsAfterTwo) {
  const FakeEngine engine;
  const ProgramResult wrong = engine.ductl({"run", "-v means what?"});
  EXPECT_EQ(wrong.status, 64);
  EXPECT_THAT(wrong.err, HasSubstr("ductl run -- "));
  const ProgramResult right = engine.ductl({"run", "--temperature", "0.5", "--", "-v means what?"});
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_EQ(engine.last_message(), "-v means what?");
  EXPECT_EQ(engine.requests().back().at("temperature"), 0.5);
}

TEST(Run, AsJson) {
  const FakeEngine engine;
  const auto document = nlohmann::json::parse(engine.ductl({"run", "hi", "-o", "json"}).out);
  EXPECT_EQ(document.at("schema"), "ductl/run/v1");
  EXPECT_EQ(document.at("answer"), "echo: hi");
  EXPECT_EQ(document.at("finish_reason"), "stop");
  EXPECT_EQ(document.at("usage").at("prompt_tokens"), 5);
  EXPECT_EQ(document.at("usage").at("completion_tokens"), 2);
  EXPECT_EQ(document.at("stats_line"), "time 1.25s");
}

TEST(Run, AsJsonAFailureIsTheOnlyDocument) {
  const FakeEngine engine;
  const auto fails = [&](const std::vector<std::string>& arguments, const std::string& why) {
    const ProgramResult result = engine.ductl(arguments);
    EXPECT_EQ(result.status, 1);
    const auto document = nlohmann::json::parse(result.out, nullptr, false); // of two documents it would be discarded
    ASSERT_TRUE(document.is_object()) << result.out;
    EXPECT_EQ(document.at("schema"), "ductl/error/v1");
    EXPECT_THAT(document.at("error").at("message").get<std::string>(), HasSubstr(why));
  };
  fails({"run", "say nothing", "-o", "json"}, "no answer");
  fails({"run", "hi", "-o", "json", "--csv", "/nonexistent/times.csv"}, "cannot be written");
}

// As `ductl run PROMPT | head -c 1`: nobody reads on, so nobody need compute on.
TEST(Run, AReaderThatWentAwayEndsTheAnswer) {
  const FakeEngine engine;
  std::string command;
  for (const std::string& word : engine.argv({"run", "hang"})) command += (command.empty() ? DUCTL_BIN_DIR "/" : " ") + word;
  const ProgramResult result =
      run_program({"/bin/bash", "-c", "{ " + command + "; echo status $? >&2; } > >(exec 0<&-)"}, engine.options());
  EXPECT_THAT(result.err, AllOf(HasSubstr("stdout takes no more"), HasSubstr("status 1")));
  EXPECT_TRUE(engine.wait_until_left_alone());
}

TEST(Run, AnAnswerThatCannotBeWrittenIsNone) {
  const FakeEngine engine;
  std::string command;
  for (const std::string& word : engine.argv({"run", "hi"})) command += (command.empty() ? DUCTL_BIN_DIR "/" : " ") + word;
  const ProgramResult result = run_program({"/bin/bash", "-c", command + " > /dev/full"}, engine.options());
  EXPECT_EQ(result.status, 1);
}

TEST(Run, TheFileOfTokenTimesIsTriedBeforeTheQuestionIsAsked) {
  const FakeEngine engine;
  EXPECT_EQ(engine.ductl({"run", "hi", "--csv", "/nonexistent/times.csv"}).status, 1);
  EXPECT_TRUE(engine.requests().empty());
}

TEST(Run, WithoutAnEngineNothingIsOnStdoutAndTheNextStepIsNamed) {
  FakeEngine engine;
  engine.leave();
  const ProgramResult result = engine.ductl({"run", "hi"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("`ductl -i "), HasSubstr("flock.toml up`")));
}

} // namespace
} // namespace ductl::test
