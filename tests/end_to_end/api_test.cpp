// The API of a flock as any client of OpenAI's sees it.
#include "tests/end_to_end/tiny_flock.hpp"
#include "tests/server/client.hpp"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using engine::call;
using engine::events_of;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::uint16_t api_port(const TinyFlock& flock) {
  return json::parse(std::ifstream(flock.state() / "run/duck-engine.json")).at("api_port").get<std::uint16_t>();
}

// One round a layer for every batch of the prompt, the last of which gives the first token, and for every token after that.
int rounds_of(const json& stats) {
  constexpr int kBatchTokens = 64;
  const int prefilled = stats.at("input_tokens").get<int>() - stats.at("cached_tokens").get<int>();
  return ((prefilled + kBatchTokens - 1) / kBatchTokens + stats.at("output_tokens").get<int>() - 1) * kTinyLayers;
}

TEST(FlockApi, AReplyCarriesTheStatisticsOfItsRounds) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const auto reply =
      call(api_port(flock), {.body = R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"temperature":0})"});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json answer = reply.json(), stats = answer.at("ductl").at("stats");
  EXPECT_EQ(stats.at("output_tokens"), answer.at("usage").at("completion_tokens"));
  EXPECT_EQ(stats.at("rounds"), rounds_of(stats));
  EXPECT_EQ(stats.at("repeats"), 0);
  EXPECT_GT(stats.at("decode_tokens_per_s").get<double>(), 0);
  const json run = flock.json({"run", "Hello", "--max-tokens", "3", "-o", "json"});
  EXPECT_EQ(run.at("stats").at("output_tokens"), 3);
  EXPECT_EQ(run.at("stats").at("rounds"), rounds_of(run.at("stats"))); // of this generation only
  std::ifstream log(flock.state() / "log/duck-engine.log");
  const std::string lines{std::istreambuf_iterator<char>(log), {}};
  EXPECT_THAT(lines, AllOf(HasSubstr("output_len 5"), HasSubstr("output_len 3")));
}

TEST(FlockApi, AStreamEndsWithTheDuckAndTheLayerWhenADuckDies) {
  constexpr auto kDeadAfter = std::chrono::milliseconds(1000), kGrace = std::chrono::milliseconds(1000);
  TinyFlock flock({.limits_toml = "dead_after_ms = 1000"});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const int pid = flock.pid_of("duck02");
  ASSERT_GT(pid, 0);
  bool killed = false;
  std::chrono::steady_clock::time_point death;
  const auto kill_once = [&](const std::string& body) {
    if (killed || body.find("\"delta\":{\"content\"") == body.rfind("\"delta\":{\"content\"")) return true; // tokens flow
    killed = true;
    death = std::chrono::steady_clock::now();
    return kill(pid, SIGKILL) == 0;
  };
  const auto reply =
      call(api_port(flock),
           {.body = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"temperature":0})", .go_on = kill_once});
  const auto took = std::chrono::steady_clock::now() - death;
  ASSERT_TRUE(killed) << reply.body;
  EXPECT_EQ(reply.status, 200);
  const auto events = events_of(reply.body);
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(events.back().starts_with("error:")) << events.back();
  const json error = json::parse(events.back().substr(6)).at("error");
  EXPECT_THAT(error.at("message").get<std::string>(), AllOf(HasSubstr("duck02"), HasSubstr("layer")));
  EXPECT_EQ(error.at("ductl_code"), "D0304");
  EXPECT_LE(took, kDeadAfter + kGrace);
  EXPECT_EQ(flock.ductl({"status"}).status, 4);
  EXPECT_EQ(call(api_port(flock), {.path = "/health"}).status, 503);
}

} // namespace
} // namespace ductl::test
