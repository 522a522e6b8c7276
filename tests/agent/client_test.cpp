// The client against servers that are no agent of this version, or none at all.
#include "agent/client/control_client.hpp"

#include "agent/client/control_messages.hpp"
#include "netboot/http/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ductl::agent {
namespace {

using testing::HasSubstr;

struct Peer {
  std::unique_ptr<http::Server> server;
  explicit Peer(int status, const std::string& body)
      : server(*http::Server::start({}, [status, body](const http::Request&, http::Response& response) {
          response.send(status, "application/json", body);
        })) {}
  [[nodiscard]] ControlClient client(const std::string& log_hint = {}) const {
    return {"duck1", {0x7f000001, server->port()}, "key", std::chrono::seconds(5), log_hint};
  }
};

TEST(ControlClient, AnAgentOfAnotherVersionIsToldApart) {
  const Peer peer(200, R"({"protocol":2,"version":"2.0"})");
  const auto hello = peer.client().hello();
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().code, ErrorCode::kAgentVersion);
  EXPECT_THAT(hello.error().message, HasSubstr("duck1"));
  EXPECT_FALSE(hello.error().next.empty());
  const Peer refusing(409,
                      R"({"error":{"code":"D0302","message":"agent 2.0 speaks control protocol 2, the request 1","next":"n"}})");
  EXPECT_EQ(refusing.client().power_off().error().code, ErrorCode::kAgentVersion);
}

TEST(ControlClient, AnAgentOfAnotherNameIsTakenOnlyByWhoAsksForAny) {
  Hello other;
  other.name = "duck2";
  other.flock = "pxe";
  other.protocol = kControlProtocol;
  const Peer peer(200, hello_text(other));
  const auto hello = peer.client().hello();
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().code, ErrorCode::kAgentRefused);
  const auto any = peer.client().hello_of_any();
  ASSERT_TRUE(any) << any.error().text();
  EXPECT_EQ(any->name, "duck2");
}

TEST(ControlClient, SomeOtherServerIsNotTakenForAnAgent) {
  const Peer peer(404, "<html>nothing here</html>");
  const auto stats = peer.client().stats();
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::kAgentRefused);
  EXPECT_THAT(stats.error().message, HasSubstr("not as an agent does"));
  const Peer cheerful(200, "welcome");
  EXPECT_FALSE(cheerful.client().hello());
  EXPECT_FALSE(cheerful.client().stats());
  EXPECT_FALSE(cheerful.client().list(0));
  EXPECT_FALSE(cheerful.client().layer_digests());
}

TEST(ControlClient, SilenceNamesTheLog) {
  ControlClient client("duck1", {0x7f000001, 1}, "key", std::chrono::milliseconds(500), "/state/log/duck1.log");
  const auto hello = client.hello();
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().code, ErrorCode::kAgentUnreachable);
  EXPECT_THAT(hello.error().next, HasSubstr("/state/log/duck1.log"));
  EXPECT_THAT(hello.error().message, HasSubstr("127.0.0.1:1"));
}

TEST(ControlClient, AnAgentThatHangsIsGivenUp) {
  http::ServerOptions options;
  auto server = http::Server::start(options, [](const http::Request&, http::Response& response) {
    while (!response.peer_gone()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  ASSERT_TRUE(server);
  ControlClient client("duck1", {0x7f000001, (*server)->port()}, "key", std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client.hello().error().code, ErrorCode::kAgentUnreachable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

} // namespace
} // namespace ductl::agent
