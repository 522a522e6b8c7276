// `ductl chat` on a terminal and in a pipe.
#include "tests/programs/fake_engine.hpp"
#include "tests/programs/terminal.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <unistd.h>

namespace ductl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPrompt = "> ";

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' ' && c != '\n'; });
}

class ChatOnATerminal : public ::testing::Test {
protected:
  // A line, and the answer's end: the next prompt.
  void say(Terminal& terminal, const std::string& line, const std::string& answer) {
    terminal.type(line + kEnter);
    ASSERT_TRUE(terminal.wait_for(answer)) << terminal.painted();
    ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  }
  FakeEngine engine_;
};

TEST_F(ChatOnATerminal, StreamsAnswersAndLeavesTheTerminalAsItWas) {
  Terminal terminal(engine_.argv({"chat"}), engine_.options());
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  EXPECT_THAT(terminal.painted(), HasSubstr("/help"));
  say(terminal, "hello", "echo: hello");
  say(terminal, "gr\xc3\xbc\xc3\x9f dich", "echo: gr\xc3\xbc\xc3\x9f dich");
  ASSERT_EQ(engine_.requests().back().at("messages").size(), 3u); // the first message and its answer come along
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait(), 0) << terminal.painted();
  EXPECT_EQ(terminal.modes(), terminal.first_modes());
}

TEST_F(ChatOnATerminal, CtrlCStopsTheAnswerAndNotTheProgram) {
  Terminal terminal(engine_.argv({"chat"}), engine_.options());
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  terminal.type(std::string("hang") + kEnter);
  ASSERT_TRUE(terminal.wait_for("partial")) << terminal.painted();
  terminal.type(kCtrlC);
  EXPECT_TRUE(engine_.wait_until_left_alone());
  ASSERT_TRUE(terminal.wait_for("stopped")) << terminal.painted();
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  say(terminal, "go on", "echo: go on");
  const auto messages = engine_.requests().back().at("messages");
  ASSERT_EQ(messages.size(), 3u); // a stopped answer counts as far as it went
  EXPECT_EQ(messages[1].at("content"), "partial");
  terminal.type(std::string("half a li") + kCtrlC); // at the prompt: the line is forgotten, the program is not
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  say(terminal, "and on", "echo: and on");
  EXPECT_EQ(engine_.last_message(), "and on");
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait(), 0) << terminal.painted();
  EXPECT_EQ(terminal.modes(), terminal.first_modes());
}

TEST_F(ChatOnATerminal, TheArrowUpBringsBackEarlierLinesAlsoOfTheLastChat) {
  {
    Terminal terminal(engine_.argv({"chat"}), engine_.options());
    ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
    say(terminal, "first", "echo: first");
    say(terminal, "second", "echo: second");
    terminal.type(std::string(kUp) + kUp + kEnter);
    ASSERT_TRUE(terminal.wait_for("echo: first")) << terminal.painted();
    ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
    EXPECT_EQ(engine_.requests().size(), 3u);
    say(terminal, "third", "echo: third");
    terminal.type(kCtrlD);
    ASSERT_EQ(terminal.wait(), 0) << terminal.painted();
  }
  const std::filesystem::path history = engine_.state() / "chat_history";
  ASSERT_TRUE(std::filesystem::exists(history));
  EXPECT_EQ(std::filesystem::status(history).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Terminal terminal(engine_.argv({"chat"}), engine_.options());
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  terminal.type(std::string(kUp) + kEnter);
  ASSERT_TRUE(terminal.wait_for("echo: third")) << terminal.painted();
}

TEST_F(ChatOnATerminal, CommandsBeginWithASlash) {
  Terminal terminal(engine_.argv({"chat", "--system", "be brief"}), engine_.options());
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  say(terminal, "/stats", "no answer has been counted yet");
  say(terminal, "hello", "echo: hello");
  say(terminal, "/stats", "time 1.25s");
  say(terminal, "/help", "/reset");
  say(terminal, "/sats", "no such command");
  say(terminal, "/reset", "a new conversation");
  say(terminal, "anew", "echo: anew");
  const auto messages = engine_.requests().back().at("messages");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].at("content"), "be brief");
  terminal.type(std::string("/quit") + kEnter);
  EXPECT_EQ(terminal.wait(), 0) << terminal.painted();
}

TEST_F(ChatOnATerminal, ATerminatedChatPutsTheTerminalBack) {
  Terminal terminal(engine_.argv({"chat"}), engine_.options());
  ASSERT_TRUE(terminal.wait_for(kPrompt)) << terminal.painted();
  terminal.type("half a line");
  ASSERT_TRUE(terminal.wait_for("half a line")) << terminal.painted();
  for (int i = 0; i < 5000 && terminal.modes() == terminal.first_modes(); ++i) usleep(1000); // the prompt comes a moment before
  EXPECT_NE(terminal.modes(), terminal.first_modes());                                       // being edited
  terminal.signal(SIGTERM);
  EXPECT_EQ(terminal.wait(), 143) << terminal.painted();
  EXPECT_EQ(terminal.modes(), terminal.first_modes());
}

TEST(ChatInAPipe, EveryLineIsAMessageAndStdoutHasOnlyTheAnswers) {
  const FakeEngine engine;
  const ProgramResult result = engine.ductl({"chat"}, "one\ntwo\r\n\nthree");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "echo: one\necho: two\necho: three\n");
  EXPECT_FALSE(has_control_characters(result.out));
  EXPECT_FALSE(has_control_characters(result.err)) << result.err;
  EXPECT_EQ(engine.requests().size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(engine.state() / "chat_history")); // typed by nobody
}

TEST(ChatInAPipe, AFailureIsTheExitCode) {
  FakeEngine engine;
  engine.leave();
  const ProgramResult result = engine.ductl({"chat"}, "hello\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("flock.toml up`"));
}

TEST(ChatInAPipe, ThereIsNoJsonAndTheErrorSaysWhoHasIt) {
  const FakeEngine engine;
  const ProgramResult json = engine.ductl({"chat", "-o", "json"}, "hello\n");
  EXPECT_EQ(json.status, 64);
  EXPECT_THAT(json.err, HasSubstr("flock.toml run "));
}

} // namespace
} // namespace ductl::test
