// What users hit: each a clear error with the next step, and nothing half-done left behind.
#include "netboot/http/http_server.hpp"
#include "tests/end_to_end/tiny_flock.hpp"

#include <arpa/inet.h>
#include <csignal>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct BadInput : ::testing::Test {
  TinyFlock flock{{.limits_toml = "control_timeout_ms = 1000"}};
  std::filesystem::path weights = flock.model() / "model.safetensors", config = flock.model() / "config.json";

  // `ductl up` fails, says `what`, gives a next step, and starts nothing.
  template <class Matcher> void up_refuses(Matcher what) {
    const ProgramResult up = flock.ductl({"up"});
    EXPECT_EQ(up.status, 1);
    EXPECT_THAT(up.err, AllOf(what, HasSubstr("help: ")));
    EXPECT_THAT(up.out, IsEmpty());
    EXPECT_THAT(flock.processes(), IsEmpty());
    EXPECT_EQ(flock.ductl({"status"}).status, 4);
  }
};

TEST_F(BadInput, ATruncatedCheckpoint) {
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 10);
  up_refuses(AllOf(HasSubstr("error[D0200]"), HasSubstr("model.safetensors")));
}

TEST_F(BadInput, AMissingTensor) {
  replace_in(weights, "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.uq_proj.weight");
  up_refuses(AllOf(HasSubstr("error[D0201]"), HasSubstr("model.layers.1.mlp.up_proj.weight")));
}

TEST_F(BadInput, ATensorOfTheWrongShape) {
  replace_in(config, "\"intermediate_size\":96", "\"intermediate_size\":112");
  up_refuses(AllOf(HasSubstr("error[D0201]"), HasSubstr("mlp")));
}

TEST_F(BadInput, AModelTypeThatIsNotKnown) {
  replace_in(config, "\"llama\"", "\"gpt9\"");
  up_refuses(AllOf(HasSubstr("error[D0202]"), HasSubstr("gpt9")));
}

TEST_F(BadInput, AWeightThatIsNotANumber) {
  constexpr std::uint16_t kNan = 0x7fc0;
  overwrite_tensor(weights, "model.layers.2.mlp.down_proj.weight", 0, std::as_bytes(std::span(&kNan, 1)));
  up_refuses(AllOf(HasSubstr("error[D0203]"), HasSubstr("model.layers.2.mlp.down_proj.weight")));
}

TEST_F(BadInput, AFormatThatTheCheckpointDoesNotFit) {
  replace_in(flock.folder() / "flock.toml", "[model]", "[model]\nformat = \"e4m3\"");
  up_refuses(AllOf(HasSubstr("error[D0202]"), HasSubstr("model.layers.0.mlp.gate_proj.weight is BF16"), HasSubstr("fp9")));
}

TEST_F(BadInput, AModelThatIsNotThere) {
  std::filesystem::remove_all(flock.model());
  up_refuses(HasSubstr("model"));
}

TEST_F(BadInput, AModelThatDoesNotFitTheDucks) {
  // As large as its header says, and empty: only sizes are looked at before it is refused.
  constexpr int kHidden = 1024, kIntermediate = 65536, kLayers = 8;
  nlohmann::json settings = nlohmann::json::parse(text_of(config)), header = nlohmann::json::object();
  settings["hidden_size"] = kHidden;
  settings["intermediate_size"] = kIntermediate;
  settings["num_hidden_layers"] = kLayers;
  std::uint64_t bytes = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = std::string(name) == "down_proj";
      const std::uint64_t end = bytes + 2ull * kHidden * kIntermediate;
      header["model.layers." + std::to_string(layer) + ".mlp." + name + ".weight"] = {
          {"dtype", "BF16"},
          {"shape", {down ? kHidden : kIntermediate, down ? kIntermediate : kHidden}},
          {"data_offsets", {bytes, end}}};
      bytes = end;
    }
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // tensors are aligned to their elements
  const std::uint64_t header_bytes = text.size();
  {
    std::ofstream out(weights, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    out << text;
  }
  std::filesystem::resize_file(weights, sizeof header_bytes + header_bytes + bytes);
  std::ofstream(config) << settings;
  flock.write_inventory({.ducks_toml = "memory_gib = 0.0625"});
  up_refuses(AllOf(HasSubstr("error[D0204]"), HasSubstr("duck01")));
}

TEST_F(BadInput, APortThatSomebodyElseHolds) {
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7421);
  ASSERT_EQ(inet_pton(AF_INET, flock.address(2).c_str(), &address.sin_addr), 1);
  ASSERT_EQ(bind(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(stranger, 4), 0);
  const ProgramResult up = flock.ductl({"up"});
  EXPECT_EQ(up.status, 1);
  EXPECT_THAT(up.err, AllOf(HasSubstr("error[D0303]"), HasSubstr("duck02"), HasSubstr("help: ")));
  close(stranger);
  const ProgramResult again = flock.ductl({"up"});
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(BadInput, AnAgentOfAnotherVersion) {
  in_addr address{};
  ASSERT_EQ(inet_pton(AF_INET, flock.address(2).c_str(), &address), 1);
  http::ServerOptions options;
  options.address = ntohl(address.s_addr);
  options.port = 7421;
  auto stranger = http::Server::start(options, [](const http::Request&, http::Response& response) {
    response.send(200, "application/json", R"({"protocol": 2, "version": "9.0", "what": "this version cannot know"})");
  });
  ASSERT_TRUE(stranger) << stranger.error().text();
  up_refuses(AllOf(HasSubstr("error[D0302]"), HasSubstr("duck02"), HasSubstr("protocol")));
  stranger->reset();
  const ProgramResult again = flock.ductl({"up"});
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(BadInput, ADuckThatIsKilledDuringUp) {
  const OwnPrograms programs(flock);
  const std::filesystem::path go = programs.hold("duck-agent"); // so that no duck is ready before it is killed
  RunningProgram up(programs.argv({"up"}), flock.options());
  int pid = 0;
  for (int i = 0; i < 10000 && (pid = flock.pid_of("duck02")) == 0; ++i) std::this_thread::sleep_for(1ms);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  std::ofstream{go};
  const ProgramResult result = up.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("duck02"), HasSubstr("log"), HasSubstr("help: ")));
  EXPECT_EQ(flock.pid_of("duck-engine"), 0);
  const ProgramResult again = flock.ductl({"up"});
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(BadInput, APromptBeyondTheContext) {
  flock.write_inventory({.engine_toml = "context_length = 256"});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const ProgramResult run = flock.ductl({"run", std::string(500, 'x')});
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.err, AllOf(HasSubstr("256"), HasSubstr("context")));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST_F(BadInput, ASettingThatThisVersionDoesNotDrive) {
  flock.write_inventory({.engine_toml = "transport = \"dpdk\""});
  const ProgramResult up = flock.ductl({"up"});
  EXPECT_NE(up.status, 0);
  EXPECT_THAT(up.err, AllOf(HasSubstr("dpdk"), HasSubstr("udp")));
}

} // namespace
} // namespace ductl::test
