#include "engine/commands/arguments.hpp"

#include "engine/commands/progress_line.hpp"
#include "engine/commands/ready_pipe.hpp"
#include "engine/commands/score.hpp"

#include <cmath>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ductl::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Expected<Arguments> parse(std::vector<std::string> words, std::size_t positionals = 1) {
  const OptionSpec specs[] = {{"--ids", true}, {"--all", false}, {"-o", true}};
  return Arguments::parse(words, specs, positionals);
}

TEST(Arguments, options_with_and_without_a_value_stand_before_and_after_words) {
  const auto a = parse({"--all", "path", "--ids", "1,2", "-o=json"});
  ASSERT_TRUE(a) << a.error().text();
  EXPECT_EQ(a->positional(0), "path");
  EXPECT_TRUE(a->has("--all"));
  EXPECT_EQ(a->value("--ids"), "1,2");
  EXPECT_EQ(a->value("-o"), "json");
  EXPECT_FALSE(parse({"p"})->value("--ids"));
  EXPECT_EQ(parse({"--", "--all"})->positional(0), "--all");
  EXPECT_FALSE(parse({"p"})->require("--ids"));
}

TEST(Arguments, what_does_not_fit_is_a_usage_error) {
  for (const auto& words : std::vector<std::vector<std::string>>{{},
                                                                 {"a", "b"},
                                                                 {"a", "--other"},
                                                                 {"a", "--ids"},
                                                                 {"a", "--all=1"},
                                                                 {"a", "--all", "--all"},
                                                                 {"a", "--ids", "1", "--ids=2"}}) {
    const auto a = parse(words);
    ASSERT_FALSE(a);
    EXPECT_EQ(a.error().code, ErrorCode::kUsage);
  }
}

TEST(Arguments, ids_are_numbers_of_the_vocabulary) {
  EXPECT_THAT(parse_ids("0,5,31", 32).value(), ElementsAre(0, 5, 31));
  for (const char* text : {"", "1,", ",1", "1,,2", "a", "1 2", "-1", "32", "99999999999999999999", "1.0"})
    EXPECT_FALSE(parse_ids(text, 32)) << text;
  EXPECT_THAT(parse_ids("32", 32).error().message, HasSubstr("\"32\""));
}

TEST(Score, is_the_negative_log_of_the_softmax_in_double) {
  const std::vector<float> logits{1, 2, 3};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(negative_log_likelihood(logits, 1), -std::log(std::exp(2.0) / sum), 1e-14);
  const std::vector<float> far{-2000, 3000, 3000};
  EXPECT_NEAR(negative_log_likelihood(far, 1), std::log(2.0), 1e-12); // nothing overflows
  EXPECT_NEAR(negative_log_likelihood(far, 0), 5000 + std::log(2.0), 1e-9);
}

TEST(ProgressLine, says_nothing_in_the_first_second_and_then_once_a_second) {
  const Instant start{};
  ProgressLine progress(start);
  EXPECT_EQ(progress.line("tokens", 1, 10, start + std::chrono::milliseconds(900)), "");
  EXPECT_EQ(progress.line("tokens", 2, 10, start + std::chrono::milliseconds(1100)), "tokens 2/10 (1 s)");
  EXPECT_EQ(progress.line("tokens", 3, 10, start + std::chrono::milliseconds(1500)), "");
  EXPECT_EQ(progress.line("opening", 0, 0, start + std::chrono::milliseconds(2200)), "opening (2 s)");
}

TEST(ReadyPipe, one_line_of_json_says_how_the_start_went_and_then_the_pipe_ends) {
  EXPECT_EQ(nlohmann::json::parse(ready_line(7411)), (nlohmann::json{{"ready", true}, {"api_port", 7411}}));
  const auto error = nlohmann::json::parse(not_ready_line({ErrorCode::kFlockEpoch, "a \"b\"\n", "duck x", "up", {}}));
  EXPECT_EQ(error.at("ready"), false);
  EXPECT_EQ(error.at("error").at("code"), "D0305");
  EXPECT_EQ(error.at("error").at("message"), "a \"b\"\n");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ReadyPipe pipe(ends[1]);
  pipe.say("line\n");
  pipe.say("never\n");
  char buffer[64];
  EXPECT_EQ(::read(ends[0], buffer, sizeof buffer), 5);
  EXPECT_EQ(::read(ends[0], buffer, sizeof buffer), 0);
  ::close(ends[0]);
}

} // namespace
} // namespace ductl::engine
