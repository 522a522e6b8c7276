// Commands of a flock that is up: the forms of `status`, the figures of `run --csv`, what `down --dry-run` leaves alone.
#include "tests/end_to_end/tiny_flock.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <sstream>

namespace ductl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_token_times(const std::filesystem::path& file, std::size_t tokens) {
  const std::vector<std::string> lines = lines_of(text_of(file));
  ASSERT_EQ(lines.size(), tokens + 1);
  EXPECT_EQ(lines[0], "position,token,total_ns,send_ns,wait_ns,compute_ns,fetch_ns,reduce_ns,accepted"); // docs/operations.md
  for (std::size_t row = 1; row < lines.size(); ++row) {
    std::vector<long> values;
    std::istringstream in(lines[row]);
    for (std::string value; std::getline(in, value, ',');) values.push_back(std::stol(value));
    ASSERT_EQ(values.size(), 9u) << lines[row];
    EXPECT_GT(values[2], 0); // total
    const long rounds = values[3] + values[4] + values[5] + values[6] + values[7];
    EXPECT_GT(rounds, 0);
    EXPECT_LE(rounds, values[2]) << lines[row]; // they do not overlap, and attention has its share
  }
}

TEST(FlockCommands, StatusRunAndDryRun) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);

  const ProgramResult table = flock.ductl({"status"}), wide = flock.ductl({"status", "-o", "wide"});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("NAME"), HasSubstr("duck02"), HasSubstr("serving"), Not(HasSubstr("KERNELS"))));
  EXPECT_THAT(wide.out, AllOf(HasSubstr("KERNELS"), HasSubstr(flock.address(2)), HasSubstr("PID")));
  const ProgramResult jsonl = flock.ductl({"-o", "jsonl", "status"});
  EXPECT_EQ(lines_of(jsonl.out).size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(jsonl.out).at("serving"), true);

  const std::filesystem::path csv = flock.folder() / "tokens.csv";
  const ProgramResult run = flock.ductl({"run", "Count.", "--max-tokens", "8", "--csv", csv, "-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto answer = nlohmann::json::parse(run.out);
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 8);
  EXPECT_EQ(answer.at("finish_reason"), "length");
  expect_token_times(csv, 8);
  const ProgramResult nowhere = flock.ductl({"run", "Count.", "--max-tokens", "2", "--csv", flock.folder() / "no/such.csv"});
  EXPECT_NE(nowhere.status, 0);
  EXPECT_THAT(nowhere.err, HasSubstr("no/such.csv"));

  const ProgramResult dry = flock.ductl({"down", "--dry-run"});
  EXPECT_EQ(dry.status, 0);
  EXPECT_THAT(dry.err, AllOf(HasSubstr("- stop engine"), HasSubstr("- stop duck01"), HasSubstr("- stop duck02")));
  const auto dry_json = flock.json({"down", "--dry-run", "-o", "json"});
  EXPECT_EQ(dry_json.at("changed"), false);
  EXPECT_EQ(dry_json.at("plan").size(), 3u);
  EXPECT_EQ(dry_json.at("plan").at(1).at("duck"), "duck01");
  EXPECT_EQ(flock.processes().size(), 3u);
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
}

TEST(FlockCommands, AChatFormatGivenToUpHoldsUntilTheNextUpWithout) {
  TinyFlock flock({.ducks = 1});
  const ProgramResult unknown = flock.ductl({"up", "--chat-format", "no-such-format"});
  EXPECT_EQ(unknown.status, 64);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("no-such-format"), HasSubstr("chatml"), HasSubstr("--chat-format")));
  ASSERT_EQ(flock.ductl({"up", "--chat-format", "chatml-smollm"}).status, 0);
  EXPECT_EQ(nlohmann::json::parse(text_of(flock.state() / "serving.json")).at("chat_format"), "chatml-smollm");
  EXPECT_EQ(flock.ductl({"plan", "--detailed-exitcode", "--chat-format", "chatml-smollm"}).status, 0);
  const ProgramResult plan = flock.ductl({"plan", "--detailed-exitcode"});
  EXPECT_EQ(plan.status, 2);
  EXPECT_THAT(plan.out, HasSubstr("~ restart engine"));
  EXPECT_EQ(flock.json({"up", "-o", "json"}).at("bytes_sent"), 0);
  EXPECT_EQ(nlohmann::json::parse(text_of(flock.state() / "serving.json")).at("chat_format"), "");
}

} // namespace
} // namespace ductl::test
