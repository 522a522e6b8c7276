// What the engine would refuse is refused by `up` before a duck is started, or touched.
#include "tests/end_to_end/tiny_flock.hpp"

#include <arpa/inet.h>
#include <charconv>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Listener { // somebody else's
public:
  explicit Listener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1; // the flock holds its port, without listening
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 4), 0);
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

private:
  int socket_;
};

struct EngineCheck : ::testing::Test {
  TinyFlock flock;
  std::filesystem::path weights = flock.model() / "model.safetensors", inventory = flock.folder() / "flock.toml";

  template <class Matcher> void up_refuses(Matcher what, int status = 1) {
    const ProgramResult up = flock.ductl({"up"});
    EXPECT_EQ(up.status, status);
    EXPECT_THAT(up.err, AllOf(what, HasSubstr("help: "), Not(HasSubstr("filling")), Not(HasSubstr("agents"))));
    EXPECT_THAT(up.out, IsEmpty());
    EXPECT_THAT(flock.processes(), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(flock.state() / "run/duck01.json")); // none was started: nothing was sent
    EXPECT_FALSE(std::filesystem::exists(flock.state() / "lock"));
  }

  [[nodiscard]] int api_port() const {
    const std::string text = text_of(inventory), key = "api_port = ";
    int port = 0;
    const std::size_t at = text.find(key) + key.size();
    std::from_chars(text.data() + at, text.data() + text.size(), port);
    return port;
  }
};

TEST_F(EngineCheck, ANormByAnotherName) {
  replace_in(weights, "model.layers.2.input_layernorm.weight", "model.layers.2.inqut_layernorm.weight");
  up_refuses(
      AllOf(HasSubstr("error[D0201]"), HasSubstr("\"model.layers.2.inqut_layernorm.weight\" is no part of a llama model")));
}

TEST_F(EngineCheck, AHeadOfTheWrongShape) {
  replace_in(flock.model() / "config.json", "\"vocab_size\":260", "\"vocab_size\":259");
  up_refuses(AllOf(HasSubstr("error[D0201]"), HasSubstr("model.embed_tokens.weight"), HasSubstr("lm_head.weight")));
}

TEST_F(EngineCheck, ATokenizerThatIsNotUnderstood) {
  replace_in(flock.model() / "tokenizer.json", "\"BPE\"", "\"WordPiece\"");
  up_refuses(AllOf(HasSubstr("error[D0400]"), HasSubstr("tokenizer.json")));
}

TEST_F(EngineCheck, AChatFormatThatIsNotKnown) {
  replace_in(inventory, "[model]\n", "[model]\nchat_format = \"quacking\"\n");
  up_refuses(AllOf(HasSubstr("error[D0401]"), HasSubstr("quacking"), HasSubstr("model.chat_format")), 64);
}

TEST_F(EngineCheck, AContextBeyondTheModel) {
  flock.write_inventory({.engine_toml = "context_length = 1000000"});
  up_refuses(AllOf(HasSubstr("error[D0402]"), HasSubstr("1000000"), HasSubstr("engine.context_length")));
}

TEST_F(EngineCheck, AnApiPortThatSomebodyElseHolds) {
  {
    const Listener stranger(api_port());
    up_refuses(AllOf(HasSubstr("error[D0303]"), HasSubstr(std::to_string(api_port()))));
  }
  EXPECT_EQ(flock.ductl({"up"}).status, 0);
}

TEST_F(EngineCheck, AnApiForOtherMachinesWithoutKeys) {
  flock.write_inventory({.engine_toml = "api_address = \"0.0.0.0\""});
  up_refuses(AllOf(HasSubstr("without a key"), HasSubstr("api-keys")), 64); // the inventory is at fault
}

TEST_F(EngineCheck, ASettingThatIsRefusedLeavesARunningFlockAsItIs) {
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const int engine = flock.pid_of("duck-engine"), duck = flock.pid_of("duck01");
  replace_in(inventory, "[model]\n", "[model]\nchat_format = \"quacking\"\n");
  const ProgramResult up = flock.ductl({"up"});
  EXPECT_EQ(up.status, 64);
  EXPECT_THAT(up.err, HasSubstr("error[D0401]"));
  EXPECT_EQ(flock.pid_of("duck-engine"), engine);
  EXPECT_EQ(flock.pid_of("duck01"), duck);
  EXPECT_EQ(flock.ductl({"run", "Hi", "--max-tokens", "1"}).status, 0);
}

TEST_F(EngineCheck, ASettingThatIsTakenRestartsTheEngineOnTheSamePort) {
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.engine_toml = "context_length = 512"});
  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("actions"), 1);
  EXPECT_EQ(up.at("bytes_sent"), 0);
}

TEST_F(EngineCheck, IsNotRunWhenNothingIsToDo) {
  const ProgramResult first = flock.ductl({"up"});
  ASSERT_EQ(first.status, 0);
  EXPECT_THAT(first.err, HasSubstr("checking"));
  const ProgramResult again = flock.ductl({"up"});
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err, Not(HasSubstr("checking")));
}

} // namespace
} // namespace ductl::test
