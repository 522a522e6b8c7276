// A real duck-agent process: every verb, every refusal, its start and its end.
#include "agent/client/slice_frames.hpp"
#include "inventory/version.hpp"
#include "tests/agent/agent_process.hpp"
#include "tests/agent/small_model.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include <regex>

namespace ductl::agent {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using weights::SliceId;

const std::string kAuthorization = std::string("Authorization: Bearer ") + kTestKey;
const std::string kProtocol = "X-Ductl-Protocol: 1";

struct Verb {
  const char *method, *path;
};
constexpr Verb kKeyed[] = {{"GET", "/v1/stats"},     {"GET", "/v1/digests"},      {"GET", "/v1/slices/0"},
                           {"GET", "/v1/log"},       {"PUT", "/v1/model"},        {"PUT", "/v1/slices"},
                           {"POST", "/v1/epoch"},    {"POST", "/v1/slices/drop"}, {"POST", "/v1/session"},
                           {"POST", "/v1/power-off"}};

TEST(Agent, SaysHello) {
  const AgentProcess agent({.more = {"--memory-limit", "123456789", "--threads", "3"}});
  ASSERT_TRUE(agent.ready()) << agent.ready_line();
  const auto hello = agent.client().hello();
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(hello->name, "duck1");
  EXPECT_EQ(hello->flock, "test");
  EXPECT_EQ(hello->version, kBuild);
  EXPECT_EQ(hello->protocol, kControlProtocol);
  EXPECT_EQ(hello->pid, agent.pid());
  EXPECT_EQ(hello->data_port, agent.data_port());
  EXPECT_EQ(hello->memory_bytes, 123456789u);
  EXPECT_GE(hello->cores, 1);
  EXPECT_EQ(hello->threads, 3);
  EXPECT_THAT(hello->kernels, testing::AnyOf("avx2-256", "avx2-128", "scalar"));
  EXPECT_EQ(hello->boot_id.size(), 16u);
  EXPECT_EQ(hello->epoch, 0u);
  EXPECT_EQ(hello->model_id, "");
}

TEST(Agent, NothingButHelloWorksWithoutTheKey) {
  AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  EXPECT_EQ(http_call("GET", agent.url("/v1/hello"), "", {}).status, 200) << "open";
  for (const Verb& verb : kKeyed) {
    for (const std::vector<std::string>& headers : {std::vector<std::string>{kProtocol},
                                                    {kProtocol, "Authorization: Bearer " + std::string(64, '0')},
                                                    {kProtocol, "Authorization: Basic x"}}) {
      const HttpAnswer answer = http_call(verb.method, agent.url(verb.path), "", headers);
      EXPECT_EQ(answer.status, 401) << verb.path;
      EXPECT_THAT(answer.body, HasSubstr("flock key"));
      EXPECT_THAT(answer.body, Not(HasSubstr(kTestKey)));
    }
  }
  EXPECT_FALSE(agent.wait(0ms)) << "it was not powered off";
}

TEST(Agent, ABodyWithoutAKeyIsNotTakenIn) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  EXPECT_EQ(http_call("PUT", agent.url("/v1/slices"), std::string(8u << 20, 'x'), {kProtocol}).status, 401);
}

TEST(Agent, AnotherProtocolIsRefusedPlainly) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  for (const Verb& verb : kKeyed) {
    EXPECT_THAT(http_call(verb.method, agent.url(verb.path), "", {kAuthorization}).body, HasSubstr("D0302")) << verb.path;
    const HttpAnswer answer = http_call(verb.method, agent.url(verb.path), "", {kAuthorization, "X-Ductl-Protocol: 2"});
    EXPECT_EQ(answer.status, 409) << verb.path;
    EXPECT_THAT(answer.body, HasSubstr("D0302"));
  }
}

TEST(Agent, SlicesArePutListedActivatedAndDropped) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  ControlClient client = agent.client();
  const SmallSlice a({0, 0, 0}), b({1, 2, 5}), c({1, 3, 0});
  EXPECT_FALSE(client.put(std::vector<OutgoingSlice>{a.outgoing()})) << "no model yet";
  ASSERT_TRUE(client.set_model(small_model()));
  ASSERT_TRUE(client.put(std::vector<OutgoingSlice>{a.outgoing(), b.outgoing(), c.outgoing()}));
  const auto listed = client.list(1);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].id, b.id);
  EXPECT_EQ((*listed)[0].digest, b.digest);
  const auto digests = client.layer_digests();
  ASSERT_TRUE(digests);
  ASSERT_EQ(digests->size(), 2u);
  EXPECT_EQ((*digests)[1], weights::combined_digest(*listed));
  EXPECT_FALSE(client.list(2)) << "no such layer";

  const std::vector<SliceId> ids = {a.id, b.id};
  ASSERT_TRUE(client.activate(3, ids));
  auto hello = client.hello();
  EXPECT_EQ(hello->model_id, "model-a");
  EXPECT_EQ(hello->epoch, 3u);
  EXPECT_EQ(hello->slices_held, 3u);
  EXPECT_EQ(hello->slices_active, 2u);
  EXPECT_EQ(hello->slice_bytes, 3 * a.bytes.size());

  EXPECT_FALSE(client.activate(4, std::vector<SliceId>{{0, 0, 9}})) << "not held";
  ASSERT_TRUE(client.drop(std::vector<SliceId>{c.id}));
  EXPECT_EQ(client.hello()->slices_held, 2u);
  ASSERT_TRUE(client.stats());
  EXPECT_EQ(client.stats()->rounds, 0u);
  const auto log = client.log_tail();
  ASSERT_TRUE(log);
  EXPECT_THAT(*log, HasSubstr("epoch 3 is active"));
}

TEST(Agent, SessionsNeedTheActiveEpochAndTheirTagIsNoGossip) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  ControlClient client = agent.client();
  const auto early = client.start_session({.tag = 77, .epoch = 1});
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("epoch 1 while epoch 0"));
  ASSERT_TRUE(client.set_model(small_model()));
  ASSERT_TRUE(client.activate(1, {}));
  EXPECT_FALSE(client.start_session({.tag = 77, .epoch = 2}));
  ASSERT_TRUE(client.start_session({.tag = 77, .epoch = 1}));
  EXPECT_EQ(client.hello()->session_tag, 77u);
  EXPECT_EQ(agent.client(std::string(64, '0')).hello()->session_tag, 0u);
}

TEST(Agent, AWrongDigestStoresNothing) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  ControlClient client = agent.client();
  ASSERT_TRUE(client.set_model(small_model()));
  const SmallSlice slice({0, 0, 0});
  OutgoingSlice wrong = slice.outgoing();
  wrong.digest ^= 1;
  const auto put = client.put(std::vector<OutgoingSlice>{wrong});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::kAgentRefused);
  EXPECT_THAT(put.error().message, HasSubstr("layer 0 expert 0 slice 0"));
  EXPECT_EQ(client.hello()->slices_held, 0u);
}

TEST(Agent, BadBodiesAreRefusedAndChangeNothing) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  ControlClient client = agent.client();
  ASSERT_TRUE(client.set_model(small_model()));
  const std::vector<std::string> headers = {kAuthorization, kProtocol};
  const SmallSlice good({0, 0, 0});
  const std::string cut = slice_frames(std::vector<OutgoingSlice>{good.outgoing(), SmallSlice({1, 0, 0}).outgoing()});
  for (const std::string& body : {std::string(), std::string("x"), cut.substr(0, cut.size() - 1), cut + "x"})
    EXPECT_EQ(http_call("PUT", agent.url("/v1/slices"), body, headers).status, 400) << body.size();
  for (const char* path : {"/v1/slices/drop", "/v1/epoch", "/v1/session"})
    for (const char* body : {"", "[", "[]", "{}", "{\"slices\":[[[[[[]]]]]]}", "\xff"})
      EXPECT_EQ(http_call("POST", agent.url(path), body, headers).status, 400) << path << " " << body;
  EXPECT_EQ(http_call("PUT", agent.url("/v1/model"), "{}", headers).status, 400);
  EXPECT_EQ(http_call("POST", agent.url("/v1/epoch"), std::string(17u << 20, ' '), headers).status, 413);
  EXPECT_EQ(http_call("GET", agent.url("/v1/nothing"), "", headers).status, 404);
  EXPECT_EQ(http_call("GET", agent.url("/v1/slices/x"), "", headers).status, 404);
  EXPECT_EQ(http_call("GET", agent.url("/v1/slices/99999999999"), "", headers).status, 404);
  EXPECT_EQ(http_call("GET", agent.url("/v1/epoch"), "", headers).status, 405);
  EXPECT_EQ(http_call("GET", agent.url("/v1/log?bytes=-1"), "", headers).status, 400);
  const auto hello = client.hello();
  EXPECT_EQ(hello->slices_held, 0u);
  EXPECT_EQ(hello->model_id, "model-a");
}

TEST(Agent, EndsWithinASecond) {
  const auto ends = [](const std::function<void(AgentProcess&)>& end) {
    AgentProcess agent;
    ASSERT_TRUE(agent.ready());
    ControlClient client = agent.client(); // an idle connection must not hold it up
    ASSERT_TRUE(client.hello());
    end(agent);
    EXPECT_EQ(agent.wait(1s), 0);
  };
  ends([](AgentProcess& agent) { agent.signal(SIGTERM); });
  ends([](AgentProcess& agent) { agent.signal(SIGINT); });
  ends([](AgentProcess& agent) { EXPECT_TRUE(agent.client().power_off()); });
}

TEST(Agent, OutlivesATerminal) {
  AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  agent.signal(SIGHUP);
  EXPECT_TRUE(agent.client().hello());
}

TEST(Agent, APortInUseIsTheLastWordOfTheStart) {
  const AgentProcess first;
  ASSERT_TRUE(first.ready());
  AgentProcess second({.name = "duck2", .control_port = std::to_string(first.control_port())});
  EXPECT_EQ(second.wait(5s), 1);
  const auto line = nlohmann::json::parse(second.ready_line());
  EXPECT_FALSE(line.at("ready").get<bool>());
  EXPECT_EQ(line.at("error").at("code"), "D0303");
  EXPECT_THAT(line.at("error").at("message").get<std::string>(), HasSubstr(fmt::format("PID {} (duck-agent)", first.pid())));
}

TEST(Agent, TwoAgentsAreIndependent) {
  const AgentProcess first, second({.name = "duck2", .address = "127.21.9.102", .key_text = std::string(64, 'a')});
  ASSERT_TRUE(first.ready() && second.ready());
  ASSERT_TRUE(first.client().set_model(small_model()));
  EXPECT_EQ(second.client(std::string(64, 'a')).hello()->model_id, "");
  EXPECT_FALSE(second.client().set_model(small_model())) << "the other flock's key";
  EXPECT_NE(first.client().hello()->boot_id, second.client(std::string(64, 'a')).hello()->boot_id);
}

TEST(Agent, BadKeysAndOptionsAreRefusedAtTheStart) {
  AgentProcess open_key({.key_mode = 0644});
  EXPECT_EQ(open_key.wait(5s), 1);
  EXPECT_THAT(open_key.ready_line(), HasSubstr("D0503"));
  AgentProcess no_key({.key_text = "short"});
  EXPECT_EQ(no_key.wait(5s), 1);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--what"},
                                               {"--control-port", "70000"},
                                               {"--address", "localhost"},
                                               {"--memory-limit", "0"},
                                               {"--threads", "65"},
                                               {"--cores", "mine"},
                                               {"--key-fd", "3"},
                                               {"stray"},
                                               {"--name"}}) {
    AgentProcess agent({.more = more});
    EXPECT_EQ(agent.wait(5s), 64) << more[0];
  }
}

TEST(Agent, TheKeyIsInNoLogAndNoArgument) {
  const AgentProcess agent;
  ASSERT_TRUE(agent.ready());
  ControlClient client = agent.client();
  ASSERT_TRUE(client.set_model(small_model()));
  EXPECT_THAT(agent.log_text(), Not(HasSubstr(kTestKey)));
  EXPECT_THAT(agent.log_text(), HasSubstr("model model-a"));
}

} // namespace
} // namespace ductl::agent
