// What the server refuses, and how.
#include "netboot/http/http_server.hpp"
#include "tests/http/raw_client.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace ductl::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

void echo(const Request& request, Response& response) { response.send(200, "text/plain", request.method + " " + request.body); }

std::unique_ptr<Server> start(ServerOptions options, Handler handler = echo) {
  auto server = Server::start(options, std::move(handler));
  if (!server) throw std::runtime_error(server.error().text());
  return std::move(*server);
}

int status_of(std::uint16_t port, std::string_view request) {
  RawClient client(port);
  client.send(request);
  const auto answer = client.read_answer();
  if (!answer) return -1;
  EXPECT_TRUE(client.closed_within(5s)) << request;
  return answer->status;
}

TEST(HttpLimits, MalformedRequestsAreRefusedAndTheConnectionEnds) {
  const auto server = start({});
  const std::uint16_t port = server->port();
  EXPECT_EQ(status_of(port, "hello\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(status_of(port, "GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(status_of(port, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            400);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
            400);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"), 400);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(status_of(port, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 400);
}

TEST(HttpLimits, LargeHeadsAre431) {
  ServerOptions options;
  const auto server = start(options);
  const std::string start_of_head = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
  EXPECT_EQ(status_of(server->port(), start_of_head + std::string(17'000, 'x')), 431) << "without an end";
  EXPECT_EQ(status_of(server->port(), start_of_head + std::string(17'000, 'x') + "\r\n\r\n"), 431);
  RawClient client(server->port());
  client.send(start_of_head + std::string(16'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.read_answer()->status, 200) << "just below";
}

TEST(HttpLimits, LargeBodiesAre413BeforeTheyCome) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  std::atomic<int> handled{0};
  const auto server = start(options, [&](const Request& request, Response& response) {
    ++handled;
    echo(request, response);
  });
  EXPECT_EQ(status_of(server->port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n"), 413);
  EXPECT_EQ(status_of(server->port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"), 413);
  const std::string chunk = "1f4\r\n" + std::string(500, 'x') + "\r\n";
  EXPECT_EQ(status_of(server->port(), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk + chunk),
            413);
  EXPECT_EQ(handled, 0);
  RawClient client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x'));
  EXPECT_EQ(client.read_answer()->status, 200);
}

TEST(HttpLimits, ARefusalArrivesThoughTheClientGoesOnSending) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  const auto server = start(options);
  RawClient client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
  client.send(std::string(4'000'000, 'x'));
  const auto answer = client.read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 413);
  EXPECT_THAT(answer->body, HasSubstr("1000 bytes"));
}

TEST(HttpLimits, AdmissionDecidesFromTheHead) {
  ServerOptions options;
  options.admit = [](const Request& head) {
    Admission admission;
    if (head.bearer() != "key") admission = {401, R"({"error":"who"})", {}};
    if (head.path == "/small") admission.body_bytes_max = 3;
    return admission;
  };
  const auto server = start(options);
  EXPECT_EQ(status_of(server->port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"), 401)
      << "the body never came";
  const std::string with_key = " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key\r\n";
  EXPECT_EQ(status_of(server->port(), "POST /small" + with_key + "Content-Length: 4\r\n\r\n"), 413);
  EXPECT_EQ(status_of(server->port(), "POST /small" + with_key + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"),
            413);
  EXPECT_EQ(status_of(server->port(), "POST /small" + with_key + "Connection: close\r\nContent-Length: 3\r\n\r\nabc"), 200);
}

TEST(HttpLimits, SlowHeadsAndBodiesAre408) {
  ServerOptions options;
  options.header_timeout = options.body_timeout = options.idle_timeout = 100ms;
  const auto server = start(options);
  EXPECT_EQ(status_of(server->port(), "GET / HTTP/1.1\r\nHost:"), 408);
  EXPECT_EQ(status_of(server->port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"), 408);
  RawClient silent(server->port());
  EXPECT_TRUE(silent.closed_within(5s));
  RawClient idle(server->port());
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(idle.read_answer());
  EXPECT_TRUE(idle.closed_within(5s));
}

TEST(HttpLimits, ATricklingHeadIsCutAtTheDeadline) {
  ServerOptions options;
  options.header_timeout = 200ms;
  const auto server = start(options);
  RawClient client(server->port());
  const auto begin = std::chrono::steady_clock::now();
  std::optional<RawAnswer> answer;
  while (!answer && std::chrono::steady_clock::now() - begin < 5s) {
    client.send("x"); // each byte is in time for the one before
    answer = client.read_answer(20ms);
  }
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 408);
}

TEST(HttpLimits, WaitingConnectionsMakeRoomForNewOnes) {
  ServerOptions options;
  options.connections_max = 4;
  const auto server = start(options);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->port()));
    slow.back()->send("GET / HT");
  }
  for (int i = 0; i < 3; ++i) {
    RawClient client(server->port());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
  }
  EXPECT_TRUE(slow[0]->closed_within(5s)) << "the one that waited longest";
}

} // namespace
} // namespace ductl::http
