// Streamed answers: back-pressure, the peer's end, many at once.
#include "netboot/http/http_server.hpp"
#include "tests/http/raw_client.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace ductl::http {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::unique_ptr<Server> start(ServerOptions options, Handler handler) {
  auto server = Server::start(options, std::move(handler));
  if (!server) throw std::runtime_error(server.error().text());
  return std::move(*server);
}

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(HttpStream, ChunksArriveAsTheyAreWritten) {
  std::promise<void> first_read;
  const auto server = start({}, [&](const Request&, Response& response) {
    response.begin_stream(200, "text/event-stream", {{"Cache-Control", "no-store"}});
    EXPECT_TRUE(response.write("data: 1\n\n"));
    EXPECT_EQ(first_read.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_TRUE(response.write("")); // nothing, and not the end
    EXPECT_TRUE(response.write("data: 2\n\n"));
  });
  RawClient client(server->port());
  client.send(kGet);
  std::string text;
  while (text.find("data: 1") == std::string::npos) {
    const std::string more = client.read_some();
    ASSERT_FALSE(more.empty());
    text += more;
  }
  EXPECT_THAT(text, testing::HasSubstr("Transfer-Encoding: chunked"));
  first_read.set_value();
  while (text.find("0\r\n\r\n") == std::string::npos) {
    const std::string more = client.read_some();
    ASSERT_FALSE(more.empty());
    text += more;
  }
  EXPECT_THAT(text, testing::HasSubstr("9\r\ndata: 2\n\n\r\n"));
}

TEST(HttpStream, AConnectionServesFurtherRequestsAfterAStream) {
  const auto server = start({}, [](const Request&, Response& response) {
    response.begin_stream(200, "text/plain");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(response.write(std::to_string(i)));
  });
  RawClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.send(kGet);
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "012");
  }
}

// The handler waits for the peer's end, and says how long after `ended` it saw it.
struct EndWatch {
  std::promise<void> entered;
  std::promise<steady_clock::time_point> seen;
  void operator()(Response& response) {
    entered.set_value();
    const auto give_up = steady_clock::now() + 10s;
    while (!response.peer_gone() && steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
    seen.set_value(steady_clock::now());
  }
};

steady_clock::duration time_until_end_is_seen(const std::function<void(RawClient&)>& end, bool stream) {
  EndWatch watch;
  const auto server = start({}, [&](const Request&, Response& response) {
    if (stream) {
      response.begin_stream(200, "text/plain");
      EXPECT_TRUE(response.write("begun"));
    }
    watch(response);
    if (stream) { EXPECT_FALSE(response.write("late")); }
  });
  RawClient client(server->port());
  client.send(kGet);
  watch.entered.get_future().wait();
  if (stream) { EXPECT_FALSE(client.read_some().empty()); }
  const auto ended = steady_clock::now();
  end(client);
  return watch.seen.get_future().get() - ended;
}

// The best of a few: the machine may be busy.
void expect_end_is_seen(const std::function<void(RawClient&)>& end, bool stream) {
  auto best = steady_clock::duration::max();
  for (int attempt = 0; attempt < 5 && best >= 250ms; ++attempt) best = std::min(best, time_until_end_is_seen(end, stream));
  EXPECT_LT(best, 250ms);
}

TEST(HttpStream, AClosedPeerIsSeenWhileStreaming) {
  expect_end_is_seen([](RawClient& client) { client.close(); }, true);
  expect_end_is_seen([](RawClient& client) { client.reset(); }, true);
  expect_end_is_seen([](RawClient& client) { client.finish_sending(); }, true);
}

TEST(HttpStream, AClosedPeerIsSeenBeforeAnythingIsWritten) {
  expect_end_is_seen([](RawClient& client) { client.close(); }, false);
  expect_end_is_seen([](RawClient& client) { client.reset(); }, false);
}

TEST(HttpStream, AClosedPeerIsSeenBehindAPipelinedRequest) {
  expect_end_is_seen(
      [](RawClient& client) {
        client.send(kGet);
        client.close();
      },
      true);
}

TEST(HttpStream, ASlowReaderHoldsTheWriterBack) {
  std::atomic<std::size_t> written{0};
  constexpr std::size_t kTotal = 64u << 20;
  const auto server = start({}, [&](const Request&, Response& response) {
    response.begin_stream(200, "application/octet-stream");
    const std::string chunk(64 * 1024, 'x');
    while (written < kTotal && response.write(chunk)) written += chunk.size();
  });
  RawClient client(server->port());
  client.send(kGet);
  std::size_t before = 0; // grows until the sockets' buffers are full, then stands
  for (int calm = 0; calm < 20;) {
    std::this_thread::sleep_for(10ms);
    const std::size_t now = written;
    calm = now == before && now != 0 ? calm + 1 : 0;
    before = now;
  }
  EXPECT_LT(written.load(), kTotal / 2);
  const auto answer = client.read_answer(30s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body.size(), kTotal);
}

TEST(HttpStream, AReaderThatStopsReadingIsLetGo) {
  ServerOptions options;
  options.write_timeout = 200ms;
  std::promise<void> ended;
  const auto server = start(options, [&](const Request&, Response& response) {
    response.begin_stream(200, "application/octet-stream");
    const std::string chunk(64 * 1024, 'x');
    while (response.write(chunk)) {}
    ended.set_value();
  });
  RawClient client(server->port());
  client.send(kGet);
  EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
}

TEST(HttpStream, AStreamThatFailsIsCutNotEnded) {
  const auto server = start({}, [](const Request&, Response& response) {
    response.begin_stream(200, "text/plain");
    EXPECT_TRUE(response.write("half"));
    throw std::runtime_error("bug");
  });
  RawClient client(server->port());
  client.send(kGet);
  EXPECT_FALSE(client.read_answer()) << "no last chunk";
}

TEST(HttpStream, ManyStreamsAtOnceKeepTheirOrder) {
  constexpr int kStreams = 32, kChunks = 200;
  ServerOptions options;
  options.workers = kStreams;
  const auto server = start(options, [](const Request& request, Response& response) {
    response.begin_stream(200, "text/plain");
    for (int i = 0; i < kChunks; ++i)
      if (!response.write(fmt::format("{}:{};", request.query.at("n"), i))) return;
  });
  std::vector<std::future<std::string>> bodies;
  for (int n = 0; n < kStreams; ++n)
    bodies.push_back(std::async(std::launch::async, [port = server->port(), n] {
      RawClient client(port);
      client.send(fmt::format("GET /?n={} HTTP/1.1\r\nHost: a\r\n\r\n", n));
      const auto answer = client.read_answer(20s);
      return answer ? answer->body : std::string("no answer");
    }));
  for (int n = 0; n < kStreams; ++n) {
    std::string expected;
    for (int i = 0; i < kChunks; ++i) expected += fmt::format("{}:{};", n, i);
    EXPECT_EQ(bodies[static_cast<std::size_t>(n)].get(), expected);
  }
}

} // namespace
} // namespace ductl::http
