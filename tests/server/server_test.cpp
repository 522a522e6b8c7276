// The API over real connections on loopback, with a generator that says what the test wants.
#include "engine/server/openai_server.hpp"
#include "tests/server/client.hpp"
#include "tests/server/fake_generator.hpp"

#include <gmock/gmock.h>
#include <thread>

namespace ductl::engine {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr const char* kHi = R"("messages":[{"role":"user","content":"hi"}])";
std::string body(const std::string& fields = {}) { return std::string("{") + kHi + (fields.empty() ? "" : "," + fields) + "}"; }

// Bounded: true once it holds.
template <class Condition> bool soon(Condition condition) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Api : public testing::Test {
protected:
  void start(ApiOptions options = {}, bool ready = true) {
    auto server = OpenAiServer::start(options);
    ASSERT_TRUE(server) << server.error().text();
    server_ = std::move(*server);
    if (ready) server_->ready(generator_);
  }
  [[nodiscard]] Reply post(const std::string& text) const { return call(server_->port(), {.body = text}); }
  [[nodiscard]] Reply get(const std::string& path) const { return call(server_->port(), {.path = path}); }

  FakeGenerator generator_;
  std::unique_ptr<OpenAiServer> server_;
};

TEST_F(Api, AWholeAnswerHasTextUsageAndStatistics) {
  start();
  const Reply reply = post(body());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json answer = reply.json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "org/fake");
  EXPECT_EQ(answer["choices"][0]["message"], json({{"role", "assistant"}, {"content", "Hello, world"}}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  const int prompt = answer["usage"]["prompt_tokens"];
  EXPECT_GT(prompt, 10);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  EXPECT_EQ(answer["usage"]["total_tokens"], prompt + 3);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_THAT(answer["ductl"]["stats_line"].get<std::string>(), HasSubstr("output_len 3"));
  EXPECT_EQ(answer["ductl"]["stats"]["output_tokens"], 3);
  EXPECT_FALSE(answer["ductl"]["stats"].contains("rounds")); // FFNs in process
  EXPECT_FALSE(answer["ductl"].contains("token_csv"));
}

TEST_F(Api, AStreamIsRoleTextFinishDone) {
  start();
  const Reply reply = post(body(R"("stream":true)"));
  ASSERT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers.at("content-type"), HasSubstr("text/event-stream"));
  const std::vector<std::string> events = events_of(reply.body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(json::parse(events.front())["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (std::size_t i = 1; i + 2 < events.size(); ++i) {
    const json chunk = json::parse(events[i]);
    const auto piece = chunk["choices"][0]["delta"]["content"].get<std::string>();
    EXPECT_FALSE(piece.empty());
    EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
    text += piece;
  }
  EXPECT_EQ(text, "Hello, world");
  const json finish = json::parse(events[events.size() - 2]);
  EXPECT_EQ(finish["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(finish["choices"][0]["delta"].empty());
  EXPECT_TRUE(finish["ductl"].contains("stats_line"));
  for (const char* figure : {"input_tokens", "cached_tokens", "output_tokens", "total_s", "ttft_s", "tpot_s",
                             "prefill_tokens_per_s", "decode_tokens_per_s"})
    EXPECT_TRUE(finish["ductl"]["stats"][figure].is_number()) << figure;
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("usage"))); // nobody asked for it
}

TEST_F(Api, UsageComesInAChunkOfItsOwnWhenAskedFor) {
  start();
  const std::vector<std::string> events = events_of(post(body(R"("stream":true,"stream_options":{"include_usage":true})")).body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  const json usage = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 3);
  for (std::size_t i = 0; i + 2 < events.size(); ++i) EXPECT_TRUE(json::parse(events[i])["usage"].is_null());
}

TEST_F(Api, AnEmptyAnswerIsStillAWholeStream) {
  generator_.script = FakeGenerator::says({});
  start();
  const std::vector<std::string> events = events_of(post(body(R"("stream":true)")).body);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(json::parse(events[1])["choices"][0]["finish_reason"], "stop");
}

TEST_F(Api, TokenTimesComeWhenAskedFor) {
  start();
  EXPECT_TRUE(post(body(R"("ductl_token_times":true)")).json()["ductl"].contains("token_csv"));
  const auto events = events_of(post(body(R"("stream":true,"ductl_token_times":true)")).body);
  EXPECT_TRUE(json::parse(events[events.size() - 2])["ductl"].contains("token_csv"));
}

TEST_F(Api, TheRequestReachesTheGeneratorAsItWasSent) {
  GenerateRequest seen;
  generator_.script = [&](const GenerateRequest& request, const GenerateCallbacks& callbacks) {
    seen = request;
    return FakeGenerator::says({"x"}, FinishReason::Length)(request, callbacks);
  };
  start();
  const Reply reply = post(body(R"("temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"repetition_penalty":1.5,"seed":9,)"
                                R"("max_tokens":20,"stop":["a","b"],"model":"org/fake")"));
  EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(seen.sampling.temperature, 0.5f);
  EXPECT_EQ(seen.sampling.top_p, 0.9f);
  EXPECT_EQ(seen.sampling.top_k, 7);
  EXPECT_EQ(seen.sampling.min_p, 0.1f);
  EXPECT_EQ(seen.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(seen.sampling.seed, 9u);
  EXPECT_EQ(seen.output_tokens_max, 20);
  EXPECT_EQ(seen.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seen.stop_tokens, generator_.chat_format().stop_tokens());
  const std::vector<ChatMessage> messages = {{"user", "hi"}};
  EXPECT_EQ(seen.prompt, generator_.chat_format().render(messages).value());
  ASSERT_EQ(post(body()).status, 200);
  const std::uint64_t drawn = seen.sampling.seed;
  ASSERT_EQ(post(body()).status, 200);
  EXPECT_NE(seen.sampling.seed, drawn); // no seed: another one each time
}

// The peer leaves; how long until the generator hears of it. The best of a few: the machine may be busy.
template <class Leave> std::chrono::milliseconds cancel_time(FakeGenerator& generator, Leave leave) {
  auto best = std::chrono::milliseconds::max();
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int before = generator.cancelled;
    leave();
    const auto left = Clock::now();
    EXPECT_TRUE(soon([&] { return generator.cancelled > before; }));
    best = std::min(best, std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - left));
  }
  return best;
}

TEST_F(Api, AStreamWhosePeerLeavesIsCancelledWithin250Ms) {
  generator_.script = FakeGenerator::never_ends("word");
  start();
  const Call leaves{.body = body(R"("stream":true)"),
                    .go_on = [](const std::string& got) { return got.find("word") == std::string::npos; }};
  EXPECT_LT(cancel_time(generator_, [&] { call(server_->port(), leaves); }), std::chrono::milliseconds(250));
}

TEST_F(Api, AWholeAnswerWhosePeerLeavesIsCancelledWithin250Ms) {
  generator_.script = FakeGenerator::never_ends("");
  start();
  EXPECT_LT(cancel_time(generator_, [&] { call(server_->port(), {.body = body(), .timeout_ms = 60}); }),
            std::chrono::milliseconds(250));
}

TEST_F(Api, ARequestThatWaitsIsCancelledWhenItsPeerLeaves) {
  std::atomic<bool> release{false};
  generator_.script = [&](const GenerateRequest& request, const GenerateCallbacks& callbacks) {
    while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeGenerator::says({"first"})(request, callbacks);
  };
  start();
  std::thread first([&] { EXPECT_EQ(post(body()).status, 200); });
  EXPECT_TRUE(soon([&] { return generator_.entered == 1; }));
  EXPECT_LT(cancel_time(generator_, [&] { call(server_->port(), {.body = body(), .timeout_ms = 60}); }),
            std::chrono::milliseconds(250));
  release = true;
  first.join();
}

TEST_F(Api, ParallelRequestsGetTheirOwnAnswers) {
  generator_.script = [](const GenerateRequest& request, const GenerateCallbacks& callbacks) {
    return FakeGenerator::says({"stop is ", request.stop.at(0)})(request, callbacks);
  };
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      const std::string name = "s" + std::to_string(i);
      const Reply reply = post(body("\"stop\":\"" + name + "\""));
      ASSERT_EQ(reply.status, 200);
      EXPECT_EQ(reply.json()["choices"][0]["message"]["content"], "stop is " + name);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Api, BeyondTheQueueIs429AndHealthStillAnswers) {
  generator_.script = FakeGenerator::never_ends("");
  start({.generations_max = 2});
  std::vector<std::thread> running;
  for (int i = 0; i < 2; ++i) running.emplace_back([&] { EXPECT_NE(post(body()).status, 200); });
  EXPECT_TRUE(soon([&] { return generator_.entered == 2; }));
  const Reply refused = post(body());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error()["code"], "queue_full");
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/v1/stats").json()["requests"]["running"], 2);
  EXPECT_EQ(get("/v1/stats").json()["requests"]["refused"], 1);
  server_->stop(); // ends both
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(generator_.cancelled, 2);
}

TEST_F(Api, SilenceIsBrokenByComments) {
  std::atomic<bool> heard{false};
  generator_.script = [&](const GenerateRequest& request, const GenerateCallbacks& callbacks) {
    EXPECT_TRUE(soon([&] { return heard.load(); }));
    return FakeGenerator::says({"late"})(request, callbacks);
  };
  start({.ping_interval = std::chrono::milliseconds(20)});
  const Reply reply = call(server_->port(), {.body = body(R"("stream":true)"), .go_on = [&](const std::string& got) {
                                               if (got.find("\n\n:\n\n:\n\n") != std::string::npos) heard = true;
                                               return true;
                                             }});
  EXPECT_EQ(reply.status, 200);
  const auto events = events_of(reply.body);
  ASSERT_EQ(events.size(), 4u); // role, text, finish, done
  EXPECT_EQ(json::parse(events[1])["choices"][0]["delta"]["content"], "late");
}

const Error kDead{ErrorCode::kDuckDied, "duck3 was silent for 5000 ms", "layer 7", "run ductl up", {}};

TEST_F(Api, AFailureBeforeTheFirstTextHasItsOwnStatus) {
  generator_.script = [](const GenerateRequest&, const GenerateCallbacks&) -> Expected<GenerateResult> {
    return tl::unexpected(kDead);
  };
  start();
  for (const char* stream : {"true", "false"}) {
    const Reply reply = post(body(std::string("\"stream\":") + stream));
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.error()["code"], "D0304");
    EXPECT_THAT(reply.error()["message"].get<std::string>(), testing::AllOf(HasSubstr("duck3"), HasSubstr("layer 7")));
    EXPECT_EQ(reply.error()["next"], "run ductl up");
  }
  EXPECT_EQ(get("/v1/stats").json()["requests"]["failed"], 2);
}

// What breaks the flock is the flock's state, not a fault of the request or of the engine.
TEST_F(Api, EveryErrorThatBreaksTheFlockIs503AndAFullQueueIs429) {
  Error error;
  generator_.script = [&](const GenerateRequest&, const GenerateCallbacks&) -> Expected<GenerateResult> {
    return tl::unexpected(error);
  };
  start();
  for (const ErrorCode code : {ErrorCode::kAgentUnreachable, ErrorCode::kAgentRefused, ErrorCode::kAgentVersion,
                               ErrorCode::kDuckDied, ErrorCode::kFlockEpoch}) {
    error = {code, "the flock is broken", "duck3", "run ductl up", {}};
    EXPECT_EQ(post(body()).status, 503) << error.code_name();
  }
  error = {ErrorCode::kQueueFull, "64 requests wait already", "", "try again later", {}};
  const Reply full = post(body());
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.error()["code"], "queue_full");
  error = {ErrorCode::kRequestValue, "stop \"queue full\" is too long", "stop", "", {}};
  EXPECT_EQ(post(body()).status, 400);
}

TEST_F(Api, AFailureWithinAStreamEndsItWithAnErrorEvent) {
  generator_.script = [](const GenerateRequest&, const GenerateCallbacks& callbacks) -> Expected<GenerateResult> {
    callbacks.on_text("some text");
    return tl::unexpected(kDead);
  };
  start();
  const Reply reply = post(body(R"("stream":true)"));
  EXPECT_EQ(reply.status, 200);
  const auto events = events_of(reply.body);
  ASSERT_GE(events.size(), 2u);
  ASSERT_TRUE(events.back().starts_with("error:")) << events.back();
  const json error = json::parse(events.back().substr(6))["error"];
  EXPECT_THAT(error["message"].get<std::string>(), testing::AllOf(HasSubstr("duck3"), HasSubstr("layer 7")));
  EXPECT_EQ(error["type"], "service_unavailable_error");
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("[DONE]")));
}

TEST_F(Api, ABrokenFlockIs503Everywhere) {
  start();
  EXPECT_EQ(get("/ready").status, 200);
  generator_.set_broken(kDead);
  const Reply health = get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.error()["stage"], "broken");
  EXPECT_THAT(health.body, HasSubstr("duck3"));
  EXPECT_EQ(post(body()).status, 503);
  EXPECT_EQ(generator_.entered, 0);
}

TEST_F(Api, WhileLoadingEverythingIs503WithTheStage) {
  start({}, false);
  server_->set_stage("slices 19 of 32");
  for (const char* path : {"/health", "/ready", "/v1/models", "/v1/stats"}) {
    const Reply reply = get(path);
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_EQ(reply.error()["stage"], "slices 19 of 32");
    EXPECT_TRUE(reply.headers.contains("retry-after"));
  }
  EXPECT_EQ(post(body()).status, 503);
  server_->ready(generator_);
  EXPECT_EQ(get("/health").json()["status"], "ok");
}

TEST_F(Api, APromptBeyondTheContextNamesTheNumbers) {
  start();
  const std::string text(600, 'a');
  const Reply reply = post(R"({"messages":[{"role":"system","content":""},{"role":"user","content":")" + text + "\"}]}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.error()["code"], "context_length_exceeded");
  EXPECT_THAT(reply.error()["message"].get<std::string>(), HasSubstr("512"));
  const Reply asks = post(body(R"("max_tokens":512)"));
  EXPECT_EQ(asks.status, 400);
  EXPECT_EQ(asks.error()["param"], "max_tokens");
  const int room = 512 - static_cast<int>(generator_.chat_format().render(std::vector<ChatMessage>{{"user", "hi"}})->size());
  EXPECT_THAT(asks.error()["message"].get<std::string>(), HasSubstr("at most " + std::to_string(room)));
  EXPECT_EQ(post(body("\"max_tokens\":" + std::to_string(room))).status, 200);
}

TEST_F(Api, FaultsOfARequestAreNamed) {
  start();
  const Reply tools = post(body(R"("tools":[{}])"));
  EXPECT_EQ(tools.status, 400);
  EXPECT_EQ(tools.error()["param"], "tools");
  EXPECT_EQ(tools.error()["type"], "invalid_request_error");
  EXPECT_EQ(post("{").status, 400);
  EXPECT_EQ(post(R"({"messages":[{"role":"assistant","content":"x"}]})").error()["param"], "messages[0].role");
  const Reply model = post(body(R"("model":"gpt-4")"));
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(model.error()["code"], "model_not_found");
  EXPECT_EQ(get("/v2/nothing").status, 404);
  const Reply method = get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  EXPECT_EQ(post("{\"x\":\"" + std::string(9u << 20, 'a') + "\"}").status, 413);
  EXPECT_EQ(generator_.entered, 0);
}

TEST_F(Api, TheModelIsListedAndFoundByItsName) {
  start();
  const json list = get("/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "org/fake");
  EXPECT_EQ(list["data"][0]["meta"]["context_length"], 512);
  EXPECT_EQ(get("/v1/models/org/fake").json(), list["data"][0]);
  EXPECT_EQ(get("/v1/models/other").status, 404);
}

TEST_F(Api, TheLastGenerationsStatisticsAreKept) {
  start();
  EXPECT_TRUE(get("/v1/stats").json()["last"].is_null());
  ASSERT_EQ(post(body()).status, 200);
  const json stats = get("/v1/stats").json();
  EXPECT_EQ(stats["schema"], "ductl/stats/v1");
  EXPECT_EQ(stats["requests"]["answered"], 1);
  EXPECT_EQ(stats["requests"]["running"], 0);
  EXPECT_EQ(stats["last"]["output_tokens"], 3);
}

TEST_F(Api, AKeyIsNeededForAllButHealth) {
  start({.keys = {"first", "second"}});
  const Reply none = post(body());
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.error()["type"], "authentication_error");
  EXPECT_EQ(get("/v1/models").status, 401);
  EXPECT_EQ(get("/health").status, 200);
  for (const char* key : {"first", "second"}) {
    EXPECT_EQ(call(server_->port(), {.body = body(), .headers = {std::string("Authorization: Bearer ") + key}}).status, 200);
  }
  EXPECT_EQ(call(server_->port(), {.body = body(), .headers = {"Authorization: Bearer firs"}}).status, 401);
}

TEST_F(Api, AnAddressBeyondThisMachineNeedsAKey) {
  const auto server = OpenAiServer::start({.address = 0});
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().next, HasSubstr("key"));
}

TEST_F(Api, WebPagesOfOtherOriginsReachNothing) {
  start();
  const auto status = [&](const std::string& header) {
    return call(server_->port(), {.path = "/v1/models", .headers = {header}}).status;
  };
  EXPECT_EQ(status("Host: evil.example"), 403);
  EXPECT_EQ(status("Host: localhost:1"), 200);
  EXPECT_EQ(status("Origin: http://evil.example"), 403);
  EXPECT_EQ(status("Origin: null"), 403);
  EXPECT_EQ(status("Origin: http://127.0.0.1:" + std::to_string(server_->port())), 200);
  const Reply preflight = call(server_->port(), {.headers = {"Origin: http://evil.example"}, .method = "OPTIONS"});
  EXPECT_EQ(preflight.status, 403);
  EXPECT_FALSE(preflight.headers.contains("access-control-allow-origin"));
}

TEST_F(Api, StoppingCancelsWhatRuns) {
  generator_.script = FakeGenerator::never_ends("word");
  start();
  std::thread asks([&] { call(server_->port(), {.body = body(R"("stream":true)")}); });
  EXPECT_TRUE(soon([&] { return generator_.entered == 1; }));
  server_->stop();
  EXPECT_EQ(generator_.cancelled, 1);
  asks.join();
}

} // namespace
} // namespace ductl::engine
