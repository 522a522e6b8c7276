// The client against an engine of a few lines, over loopback.
#include "ductl/commands/engine_client.hpp"
#include "netboot/http/http_server.hpp"

#include <atomic>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <thread>

namespace ductl::commands {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kParis = "data: {\"choices\":[{\"delta\":{\"content\":\"Paris\"}}]}\n\n";
constexpr const char* kEnd =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"ductl\":{\"stats_line\":\"time 1s\"}}\n\ndata: [DONE]\n\n";

class AskEngine : public ::testing::Test {
protected:
  EngineAddress serve(http::Handler handler) {
    auto started = http::Server::start({}, std::move(handler));
    if (!started) {
      ADD_FAILURE() << started.error().text();
      return {};
    }
    server_ = std::move(*started);
    return {fmt::format("http://127.0.0.1:{}", server_->port()), "/log/duck-engine.log", "secret"};
  }
  Expected<Answer> ask(
      const EngineAddress& engine, const std::function<bool()>& stop = [] { return false; }, Duration silence_max = 60s) {
    return ask_engine(
        engine, {{{"user", "hi"}}, {}, false}, [this](std::string_view text) { seen_ += text; }, stop, silence_max);
  }

  std::string seen_;

private:
  std::unique_ptr<http::Server> server_;
};

TEST_F(AskEngine, StreamsAnAnswer) {
  std::string method, path, bearer, body;
  const EngineAddress engine = serve([&](const http::Request& request, http::Response& response) {
    method = request.method, path = request.path, bearer = std::string(request.bearer()), body = request.body;
    response.begin_stream(200, "text/event-stream");
    response.write(kParis);
    response.write(kEnd);
  });
  const auto answer = ask(engine);
  ASSERT_TRUE(answer.has_value()) << answer.error().text();
  EXPECT_EQ(answer->text, "Paris");
  EXPECT_EQ(answer->stats_line, "time 1s");
  EXPECT_EQ(seen_, "Paris");
  EXPECT_EQ(method + " " + path, "POST /v1/chat/completions");
  EXPECT_EQ(bearer, "secret");
  EXPECT_THAT(body, HasSubstr("\"hi\""));
}

TEST_F(AskEngine, StoppingClosesTheConnection) {
  std::atomic<bool> gone{false};
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.begin_stream(200, "text/event-stream");
    response.write(kParis);
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!response.peer_gone() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    gone = response.peer_gone();
    gone.notify_all();
  });
  const auto answer = ask(engine, [this] { return !seen_.empty(); });
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->stopped);
  EXPECT_EQ(answer->text, "Paris");
  for (int i = 0; i < 10000 && !gone; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone);
}

TEST_F(AskEngine, AnErrorEventIsTheErrorAndNamesTheLog) {
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.begin_stream(200, "text/event-stream");
    response.write(kParis);
    response.write("event: error\ndata: {\"error\":{\"message\":\"duck02 is silent\",\"ductl_code\":\"D0304\"}}\n\n");
  });
  const auto answer = ask(engine);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kDuckDied);
  EXPECT_EQ(answer.error().place, "/log/duck-engine.log");
}

TEST_F(AskEngine, AnAnswerThatBreaksOffIsAnError) {
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.begin_stream(200, "text/event-stream");
    response.write(kParis);
  });
  const auto answer = ask(engine);
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().message, HasSubstr("broke off"));
}

TEST_F(AskEngine, AnEngineThatFallsSilentIsGivenUp) {
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.begin_stream(200, "text/event-stream");
    response.write(kParis);
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!response.peer_gone() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  });
  const auto answer = ask(
      engine, [] { return false; }, 200ms);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kEngineUnreachable);
  EXPECT_THAT(answer.error().message, HasSubstr("nothing has come"));
  EXPECT_EQ(answer.error().place, "/log/duck-engine.log");
  EXPECT_EQ(seen_, "Paris");
}

TEST_F(AskEngine, PingsAreSignsOfLife) {
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.begin_stream(200, "text/event-stream");
    for (int i = 0; i < 8; ++i) { // four times as long as silence may last
      std::this_thread::sleep_for(250ms);
      response.write(":\n\n");
    }
    response.write(kParis);
    response.write(kEnd);
  });
  const auto answer = ask(
      engine, [] { return false; }, 1s);
  ASSERT_TRUE(answer.has_value()) << answer.error().text();
  EXPECT_EQ(answer->text, "Paris");
}

TEST_F(AskEngine, AnEngineThatIsNotReadySaysItsStage) {
  const EngineAddress engine = serve([&](const http::Request&, http::Response& response) {
    response.send(503, "application/json",
                  "{\"error\":{\"message\":\"the engine is not ready yet\",\"stage\":\"reading weights\"}}");
  });
  const auto answer = ask(engine);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kEngineUnreachable);
  EXPECT_THAT(answer.error().message, HasSubstr("reading weights"));
}

TEST_F(AskEngine, WithoutAnEngineTheNextStepIsUp) {
  const EngineAddress engine =
      serve([](const http::Request&, http::Response& response) { response.send(200, "text/plain", ""); });
  const auto odd = ask(engine);
  ASSERT_FALSE(odd.has_value()); // answers, but is no engine
  // Port 1 is privileged and nobody's: refused at once.
  const auto answer = ask({"http://127.0.0.1:1", "/log/duck-engine.log", ""});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kEngineUnreachable);
  EXPECT_THAT(answer.error().next, HasSubstr("ductl up"));
}

TEST(EngineAddressOf, TheWildcardMeansLoopback) {
  inventory::Flock flock;
  flock.name = "f";
  flock.engine.api_address = 0;
  EXPECT_EQ(engine_address(flock).url, "http://127.0.0.1:7411");
  EXPECT_THAT(engine_address(flock).log_file, ::testing::EndsWith("ductl/f/log/duck-engine.log"));
}

} // namespace
} // namespace ductl::commands
