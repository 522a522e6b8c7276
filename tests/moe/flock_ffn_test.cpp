// FlockFfn and ExpertServers over real UDP on loopback, each duck a thread.
#include "agent/expert_server.hpp"
#include "agent/transport/udp_transport.hpp"
#include "agent/wire/header.hpp"
#include "agent/wire/reply.hpp"
#include "agent/wire/request.hpp"
#include "engine/moe/flock_ffn.hpp"
#include "tests/moe/support/tiny_model.hpp"

#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <thread>

namespace ductl::testing {
namespace {

using std::chrono::milliseconds;

constexpr TinyModel kModel{.layers = 3, .hidden = 576, .experts = 4, .slices = 32, .exponent = 14};

struct ThreadDuck {
  std::unique_ptr<agent::UdpTransport> transport;
  std::unique_ptr<TinyStore> store;
  std::unique_ptr<agent::ExpertServer> server;
  std::thread thread;
  ~ThreadDuck() { stop(); }
  void stop() {
    if (!thread.joinable()) return;
    server->stop();
    thread.join();
  }
};

std::unique_ptr<agent::UdpTransport> open_udp(std::uint32_t address, std::size_t buffer = 8u << 20) {
  auto transport = agent::open_udp_transport({.bind = {.address = address, .port = 0}, .receive_buffer_bytes = buffer});
  if (!transport) throw std::runtime_error(transport.error().text());
  return *std::move(transport);
}

class UdpFlock {
public:
  UdpFlock(int ducks, std::uint64_t tag, milliseconds dead_after = milliseconds(5000), std::uint32_t epoch = 4,
           bool bf16 = false) {
    engine::FlockFfnOptions options{
        .ducks = {}, .session_tag = tag, .epoch = epoch, .bf16_hidden = bf16, .dead_after = dead_after, .clock = &Clock::now};
    for (int d = 0; d < ducks; ++d) {
      auto& duck = *ducks_.emplace_back(std::make_unique<ThreadDuck>());
      duck.transport = open_udp(0x7f000001, 1u << 20);
      duck.store = std::make_unique<TinyStore>(kModel, d, ducks, 4);
      duck.server = std::make_unique<agent::ExpertServer>(*duck.transport, *duck.store, tiny_kernels());
      duck.server->set_session({.tag = tag, .epoch = 4, .duck = static_cast<std::uint16_t>(d), .bf16_hidden = bf16});
      duck.thread = std::thread([&duck] { duck.server->run(); });
      options.ducks.push_back({.name = "duck" + std::to_string(d), .port_index = 0, .data = duck.transport->local()});
    }
    std::vector<std::unique_ptr<agent::Transport>> transports;
    transports.push_back(open_udp(0x7f000001));
    ffn_ = engine::make_flock_ffn(options, tiny_manifest(kModel), tiny_config(kModel), std::move(transports));
  }

  Expected<std::vector<float>> round(const TinyRequest& request) {
    if (auto started = ffn_->start(request.request); !started) return tl::unexpected(started.error());
    std::vector<float> y(request.x.size());
    if (auto times = ffn_->finish(request.request.lane, y); !times) return tl::unexpected(times.error());
    return y;
  }

  engine::FlockFfn& ffn() { return *ffn_; }
  ThreadDuck& duck(int d) { return *ducks_[d]; }

private:
  std::vector<std::unique_ptr<ThreadDuck>> ducks_;
  std::unique_ptr<engine::FlockFfn> ffn_;
};

class FlockOf : public ::testing::TestWithParam<int> {};

TEST_P(FlockOf, AnswersWithTheSameBitsAsAnyOther) {
  UdpFlock flock(GetParam(), 77);
  std::mt19937_64 random(1); // the same requests for every size of flock, and one oracle for all
  for (int i = 0; i < 60; ++i) {
    TinyRequest request = random_request(kModel, i % 3, 0, 1 + i % 5, random);
    if (i == 30) amplify(request, kModel, 0, 3e4f);
    int rungs = 0;
    const auto expected = expected_sum(kModel, request.request, &rungs);
    ASSERT_EQ(rungs > 0, i == 30);
    const auto y = flock.round(request);
    ASSERT_TRUE(y) << y.error().text();
    ASSERT_EQ(*y, expected);
  }
  const TinyRequest largest = random_request(kModel, 0, 0, flock.ffn().tokens_max(), random);
  const auto y = flock.round(largest);
  ASSERT_TRUE(y) << y.error().text();
  EXPECT_EQ(*y, expected_sum(kModel, largest.request));
}

INSTANTIATE_TEST_SUITE_P(FlockFfn, FlockOf, ::testing::Values(1, 2, 5, 32),
                         [](const auto& ducks) { return std::to_string(ducks.param) + "Ducks"; });

TEST(FlockFfn, ThirtyTwoDucksOnFewCoresRaiseNoStormOfNacks) {
  UdpFlock flock(32, 78);
  std::mt19937_64 random(2);
  constexpr int kRounds = 300;
  for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(flock.round(random_request(kModel, i % 3, 0, i % 10 == 0 ? 16 : 1, random)));
  const engine::FlockStats stats = flock.ffn().stats();
  RecordProperty("nacks", std::to_string(stats.nacks_sent));
  // Questions cost little and are bounded by the clock, not by the number of ducks; on a loopback nothing is lost.
  EXPECT_LE(stats.nacks_sent, 2u * kRounds);
  EXPECT_LE(stats.nacks_received, static_cast<std::uint64_t>(kRounds));
  EXPECT_LE(stats.frames_out, 32u * kRounds * 3u);
}

TEST(FlockFfn, TwoFlocksOnOneMachineNeverHearEachOther) {
  UdpFlock a(3, 100), b(3, 200);
  std::mt19937_64 random(3);
  // Each host also shouts at the other's ducks, as a stale engine would.
  const auto stray = open_udp(0x7f000001);
  for (int i = 0; i < 50; ++i) {
    const TinyRequest ra = random_request(kModel, 0, 0, 2, random), rb = random_request(kModel, 1, 0, 2, random);
    ASSERT_TRUE(a.ffn().start(ra.request));
    ASSERT_TRUE(b.ffn().start(rb.request));
    std::vector<float> ya(ra.x.size()), yb(rb.x.size());
    ASSERT_TRUE(b.ffn().finish(0, yb));
    ASSERT_TRUE(a.ffn().finish(0, ya));
    ASSERT_EQ(ya, expected_sum(kModel, ra.request));
    ASSERT_EQ(yb, expected_sum(kModel, rb.request));
    const wire::Header h{.kind = wire::Kind::ReplyNack, .session_tag = 100, .epoch = 4, .round = 1000, .duck = 0};
    std::array<std::byte, wire::kHeaderBytes> frame;
    wire::encode_header(h, {}, frame);
    const agent::OutgoingFrame out{.to = b.duck(0).transport->local(), .head = frame, .body = {}};
    ASSERT_EQ(stray->send({&out, 1}), 1u);
  }
  b.duck(0).stop(); // its counters are final now
  EXPECT_GT(b.duck(0).server->stats().frames_foreign.load(), 40u);
  EXPECT_EQ(a.duck(0).server->stats().frames_foreign.load(), 0u);
  EXPECT_EQ(a.ffn().stats().frames_foreign + b.ffn().stats().frames_foreign, 0u);
}

TEST(FlockFfn, ADuckThatStopsIsNamedInTime) {
  UdpFlock flock(3, 79, milliseconds(1000)); // long enough for a living duck on a busy machine
  std::mt19937_64 random(4);
  ASSERT_TRUE(flock.round(random_request(kModel, 0, 0, 1, random)));
  flock.duck(1).stop();
  const Instant start = Clock::now();
  const auto y = flock.round(random_request(kModel, 2, 0, 1, random));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kDuckDied);
  EXPECT_NE(y.error().message.find("duck1"), std::string::npos);
  EXPECT_NE(y.error().message.find("layer 2"), std::string::npos);
  EXPECT_GE(Clock::now() - start, milliseconds(1000));
  EXPECT_LT(Clock::now() - start, milliseconds(4000)); // dead_after, and a busy machine's share; three of them would be a bug
}

TEST(FlockFfn, AnEpochThatIsNotTheFlocksIsRefused) {
  UdpFlock flock(2, 80, milliseconds(5000), 5);
  std::mt19937_64 random(5);
  const auto y = flock.round(random_request(kModel, 0, 0, 1, random));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kFlockEpoch);
}

TEST(FlockFfn, FinishingWhatWasNotStartedIsAnErrorAndNoHang) {
  UdpFlock flock(1, 83);
  std::vector<float> y(static_cast<std::size_t>(kModel.hidden));
  EXPECT_FALSE(flock.ffn().finish(0, y));
  EXPECT_FALSE(flock.ffn().finish(4, y));
}

TEST(FlockFfn, ALayerThatNoDuckHasIsAnError) {
  TinyModel deeper = kModel;
  deeper.layers = 9;
  std::mt19937_64 random(6);
  UdpFlock flock(2, 81);
  EXPECT_FALSE(flock.ffn().start(random_request(deeper, 7, 0, 1, random).request));
}

TEST(FlockFfn, ATokenThatChoosesMoreExpertsThanARequestHoldsIsRefused) {
  UdpFlock flock(1, 84);
  std::mt19937_64 random(8);
  TinyRequest request = random_request(kModel, 0, 0, 2, random);
  request.choices[1].assign(wire::kChoicesMax + 1, {.expert = 0, .weight = 0.01f});
  request.choice_spans[1] = request.choices[1];
  request.request.experts = request.choice_spans;
  const auto started = flock.ffn().start(request.request);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("65 experts"), std::string::npos) << started.error().text();
  EXPECT_TRUE(flock.round(random_request(kModel, 0, 0, 2, random)));
}

TEST(FlockFfn, Bf16HiddenStatesAreWidenedExactly) {
  UdpFlock flock(2, 82, milliseconds(5000), 4, true);
  std::mt19937_64 random(7);
  TinyRequest request = random_request(kModel, 0, 0, 3, random);
  const auto y = flock.round(request);
  ASSERT_TRUE(y) << y.error().text();
  for (float& v : request.x) v = wire::from_bf16(wire::to_bf16(v));
  EXPECT_EQ(*y, expected_sum(kModel, request.request));
}

TEST(FlockFfn, TokensAreLimitedByTheReceiveBuffer) {
  engine::FlockFfnOptions options{.ducks = {}, .session_tag = 1, .epoch = 1};
  for (int d = 0; d < 32; ++d)
    options.ducks.push_back({.name = "d", .port_index = 0, .data = {.address = 0x7f000001, .port = 1}});
  for (const std::size_t buffer : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{4} << 20}) {
    std::vector<std::unique_ptr<agent::Transport>> transports;
    transports.push_back(open_udp(0x7f000001, buffer));
    const std::size_t given = dynamic_cast<agent::UdpTransport&>(*transports[0]).receive_buffer_bytes();
    const auto ffn = engine::make_flock_ffn(options, tiny_manifest(kModel), tiny_config(kModel), std::move(transports));
    const int tokens = ffn->tokens_max();
    EXPECT_GE(tokens, 1);
    EXPECT_LE(tokens, wire::kTokensMax);
    EXPECT_TRUE(tokens == 1 || 32 * wire::reply_bytes(tokens, kModel.hidden) <= given / 2);
    EXPECT_TRUE(tokens == wire::kTokensMax || 32 * wire::reply_bytes(tokens + 1, kModel.hidden) > given / 2);
  }
}

} // namespace
} // namespace ductl::testing
