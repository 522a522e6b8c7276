// What the server does with good requests; its start and its end.
#include "netboot/http/http_server.hpp"
#include "tests/http/raw_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace ductl::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<Server> start(ServerOptions options, Handler handler) {
  auto server = Server::start(options, std::move(handler));
  if (!server) throw std::runtime_error(server.error().text());
  return std::move(*server);
}

void describe(const Request& request, Response& response) {
  std::string text = request.method + " " + request.path + "\n";
  for (const auto& [name, value] : request.query) text += name + "=" + value + "\n";
  response.send(200, "text/plain", text + request.body, {{"X-Test", "yes"}});
}

TEST(HttpServer, KeepsAConnectionForManyRequests) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  for (int i = 0; i < 50; ++i) {
    client.send(fmt::format("POST /n{}?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", i));
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, fmt::format("POST /n{}\na=b\nhi", i));
    EXPECT_THAT(answer->head, HasSubstr("X-Test: yes"));
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += fmt::format("POST /{} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{:03}", i, i);
  client.send(all);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.read_answer()->body, fmt::format("POST /{}\n{:03}", i, i));
}

TEST(HttpServer, TakesRequestsSplitAnywhere) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  const std::string request =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;e=1\r\ndefg\r\n0\r\nT: x\r\n\r\n";
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    client.send(std::string_view(request).substr(0, cut));
    if (cut % 16 == 0) std::this_thread::sleep_for(1ms); // now and then let the server see the cut
    client.send(std::string_view(request).substr(cut));
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer) << cut;
    EXPECT_EQ(answer->body, "POST /x\nabcdefg") << cut;
  }
}

TEST(HttpServer, HeadHasNoBody) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n");
  std::string text;
  while (text.find("GET /y") == std::string::npos) {
    const std::string more = client.read_some();
    ASSERT_FALSE(more.empty());
    text += more;
  }
  EXPECT_THAT(text, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("GET /x")));
}

TEST(HttpServer, SaysContinueWhenAsked) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_some(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_EQ(client.read_answer()->body, "POST /\nhi");
}

TEST(HttpServer, ClosesWhenTheClientAsks) {
  const auto server = start({}, describe);
  RawClient modern(server->port()), old(server->port());
  modern.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(modern.read_answer()->head, HasSubstr("Connection: close"));
  EXPECT_TRUE(modern.closed_within(5s));
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_answer()->status, 200);
  EXPECT_TRUE(old.closed_within(5s));
}

TEST(HttpServer, AHalfClosedClientStillGetsAWholeAnswer) {
  const auto server = start({}, describe);
  RawClient client(server->port());
  client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
  client.finish_sending();
  EXPECT_EQ(client.read_answer()->body, "GET /x\n");
}

TEST(HttpServer, AHandlerThatFailsCostsItsRequestOnly) {
  const auto server = start({}, [](const Request& request, Response& response) {
    if (request.path == "/throw") throw std::runtime_error("bug");
    if (request.path == "/ok") response.send(200, "text/plain", "ok");
  });
  RawClient client(server->port());
  for (const char* path : {"/throw", "/nothing"}) {
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path));
    EXPECT_EQ(client.read_answer()->status, 500) << path;
  }
  client.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read_answer()->body, "ok");
}

std::size_t append(char* bytes, std::size_t, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(bytes, count);
  return count;
}

TEST(HttpServer, LibcurlSendsAndGetsLargeBodies) {
  ServerOptions options;
  options.body_bytes_max = 64u << 20;
  const auto server = start(
      options, [](const Request& request, Response& response) { response.send(200, "application/octet-stream", request.body); });
  std::string body(20u << 20, '\0'), out;
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 13);
  CURL* curl = curl_easy_init();
  const std::string url = fmt::format("http://127.0.0.1:{}/echo", server->port());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &out);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  EXPECT_EQ(curl_easy_perform(curl), CURLE_OK);
  curl_easy_cleanup(curl);
  EXPECT_TRUE(out == body);
}

TEST(HttpServer, APortInUseNamesTheAddressAndItsHolder) {
  const auto server = start({}, describe);
  ServerOptions options;
  options.port = server->port();
  const auto second = Server::start(options, describe);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAddressInUse);
  EXPECT_THAT(second.error().message,
              HasSubstr(fmt::format("127.0.0.1:{} is already in use by PID {}", options.port, ::getpid())));
}

TEST(HttpServer, AnAddressThatIsNotOursIsAnError) {
  ServerOptions options;
  options.address = 0xcb007101; // 203.0.113.1, documentation
  const auto server = Server::start(options, describe);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kHttpServer);
}

TEST(HttpServer, StopEndsIdleAndBusyConnectionsPromptly) {
  std::atomic<bool> entered{false}, saw_end{false};
  auto server = start({}, [&](const Request& request, Response& response) {
    if (request.path == "/wait") {
      entered = true;
      const auto give_up = std::chrono::steady_clock::now() + 10s;
      while (!response.peer_gone() && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
      saw_end = response.peer_gone();
    }
    response.send(200, "text/plain", "bye");
  });
  RawClient idle(server->port()), busy(server->port());
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(idle.read_answer());
  busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  while (!entered) std::this_thread::sleep_for(1ms);
  const auto begin = std::chrono::steady_clock::now();
  server->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  EXPECT_TRUE(saw_end);
  EXPECT_EQ(busy.read_answer()->body, "bye") << "an answer that was given is still sent";
  EXPECT_TRUE(idle.closed_within(1s));
  server->stop(); // again, does nothing
}

} // namespace
} // namespace ductl::http
