// Whole rounds, FlockFfn to ducks and back, over a network that loses, doubles, reorders and damages frames. All of it in
// virtual time and from one seed, which every failure prints.
#include "agent/wire/header.hpp"
#include "engine/moe/flock_ffn.hpp"
#include "tests/moe/support/lossy_network.hpp"
#include "tests/moe/support/simulated_duck.hpp"
#include "tests/moe/support/tiny_model.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <memory>

namespace ductl::testing {
namespace {

using engine::FlockDuck;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kTag = 0x5eed;
constexpr std::uint32_t kEpoch = 3;

agent::Endpoint host_endpoint(int port) { return {.address = 0x7f150001u + (static_cast<unsigned>(port) << 8), .port = 9000}; }
agent::Endpoint duck_endpoint(int duck) { return {.address = 0x7f150165u + static_cast<unsigned>(duck), .port = 7422}; }

struct FlockOptions {
  int ducks = 5, ports = 1;
  std::size_t mtu = wire::kHeaderBytes + 128;
  milliseconds dead_after{5000};
  bool bf16_hidden = false, compact_reply = false;
  TinyModel model{.layers = 3, .hidden = 32, .experts = 4, .slices = 6, .exponent = 16};
};

class SimulatedFlock {
public:
  SimulatedFlock(std::uint64_t seed, Faults faults, FlockOptions options = {}) : options_(options), network_(seed, faults) {
    engine::FlockFfnOptions ffn{.ducks = {},
                                .session_tag = kTag,
                                .epoch = kEpoch,
                                .bf16_hidden = options.bf16_hidden,
                                .compact_reply = options.compact_reply,
                                .dead_after = options.dead_after,
                                .clock = &LossyNetwork::now};
    for (int d = 0; d < options.ducks; ++d) {
      ffn.ducks.push_back({.name = "duck" + std::to_string(d + 1), .port_index = d % options.ports, .data = duck_endpoint(d)});
      ducks_.push_back(std::make_unique<SimulatedDuck>(network_, duck_endpoint(d),
                                                       wire::DuckSession{.tag = kTag,
                                                                         .epoch = kEpoch,
                                                                         .duck = static_cast<std::uint16_t>(d),
                                                                         .bf16_hidden = options.bf16_hidden,
                                                                         .compact_reply = options.compact_reply,
                                                                         .hidden = options.model.hidden,
                                                                         .tokens_max = wire::kTokensMax,
                                                                         .mtu = options.mtu},
                                                       options.model, options.ducks));
    }
    std::vector<std::unique_ptr<agent::Transport>> transports;
    for (int p = 0; p < options.ports; ++p)
      transports.push_back(std::make_unique<NetworkPort>(network_, host_endpoint(p), options.mtu));
    ffn_ = engine::make_flock_ffn(ffn, tiny_manifest(options.model), tiny_config(options.model), std::move(transports));
  }

  // One round; fails the test when it ends in an error, gives a wrong bit, or takes too long.
  void expect_right_round(int layer, int tokens, float amplified = 1) {
    TinyRequest request = random_request(options_.model, layer, 0, tokens, network_.random());
    if (amplified != 1) amplify(request, options_.model, tokens - 1, amplified);
    const Instant start = LossyNetwork::now();
    ASSERT_TRUE(ffn_->start(request.request));
    std::vector<float> y(request.x.size());
    const auto times = ffn_->finish(0, y);
    ASSERT_TRUE(times) << times.error().text();
    ASSERT_EQ(y, expected_sum(options_.model, request.request));
    ASSERT_LT(LossyNetwork::now() - start, 4 * options_.dead_after) << "virtual time of one round";
    const std::int64_t total = times->send_ns + times->wait_ns + times->compute_ns + times->fetch_ns + times->reduce_ns;
    ASSERT_EQ(total, Duration(LossyNetwork::now() - start).count()) << "the parts of a round's time make its whole";
  }

  engine::FlockFfn& ffn() { return *ffn_; }
  LossyNetwork& network() { return network_; }
  SimulatedDuck& duck(int i) { return *ducks_[i]; }
  const FlockOptions& options() const { return options_; }

private:
  FlockOptions options_;
  LossyNetwork network_;
  std::vector<std::unique_ptr<SimulatedDuck>> ducks_;
  std::unique_ptr<engine::FlockFfn> ffn_;
};

TEST(LossyRounds, TenThousandRoundsWithTenPercentOfEveryFaultGiveNoWrongSum) {
  constexpr std::uint64_t kSeed = 20260101;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  SimulatedFlock flock(kSeed, {.loss = 0.1, .duplication = 0.1, .reordering = 0.1, .corruption = 0.1});
  for (int round = 0; round < 10000; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    flock.expect_right_round(round % 3, 1 + round % 3, round % 97 == 0 ? 3000.0f : 1.0f);
    if (HasFatalFailure()) return;
  }
  const engine::FlockStats stats = flock.ffn().stats();
  EXPECT_EQ(stats.rounds, 10000u);
  EXPECT_GT(stats.repeats, 50u);
  EXPECT_GT(stats.nacks_sent, 1000u);
  EXPECT_GT(stats.nacks_received, 1000u);
  EXPECT_GT(stats.frames_corrupt, 1000u);
  EXPECT_GT(stats.frames_duplicate, 1000u);
  RecordProperty("frames", std::to_string(flock.network().frames()));
}

TEST(LossyRounds, ManySeedsWithFaultsSwitchedOnAndOffGiveNoWrongSum) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto maybe = [&](double chance) { return random() % 2 == 0 ? chance : 0.0; };
    const Faults faults{.loss = maybe(0.2), .duplication = maybe(0.3), .reordering = maybe(0.5), .corruption = maybe(0.1)};
    const FlockOptions options{
        .ducks = 1 + static_cast<int>(random() % 9),
        .mtu = wire::kHeaderBytes + 32 * (1 + random() % 20),
        .model = {.layers = 2, .hidden = 32 * (1 + static_cast<int>(random() % 6)), .experts = 3, .slices = 5}};
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    SimulatedFlock flock(seed, faults, options);
    for (int round = 0; round < 8; ++round) flock.expect_right_round(round % 2, 1 + static_cast<int>(random() % 4));
    if (HasFatalFailure()) return;
  }
}

// Sums below 2^15 come through a compact reply as they are, so the oracle holds for it too.
TEST(LossyRounds, CompactRepliesArePutTogetherFromWhateverArrives) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 random(seed);
    const FlockOptions options{
        .ducks = 1 + static_cast<int>(random() % 9),
        .mtu = wire::kHeaderBytes + 32 * (1 + random() % 20),
        .compact_reply = true,
        .model = {.layers = 2, .hidden = 32 * (1 + static_cast<int>(random() % 9)), .experts = 3, .slices = 5, .exponent = 4}};
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    SimulatedFlock flock(seed, {.loss = 0.1, .duplication = 0.1, .reordering = 0.3, .corruption = 0.1}, options);
    for (int round = 0; round < 8; ++round) flock.expect_right_round(round % 2, 1 + static_cast<int>(random() % 4));
    if (HasFatalFailure()) return;
  }
}

TEST(LossyRounds, LossOnSeveralPortsIsRepairedOnEach) {
  SimulatedFlock flock(5, {.loss = 0.1, .reordering = 0.1}, {.ducks = 8, .ports = 4});
  for (int round = 0; round < 200; ++round) flock.expect_right_round(0, 2);
}

TEST(LossyRounds, AQuietNetworkNeedsNoQuestions) {
  SimulatedFlock flock(1, {});
  for (int round = 0; round < 500; ++round) flock.expect_right_round(round % 3, 1 + round % 8);
  const engine::FlockStats stats = flock.ffn().stats();
  EXPECT_EQ(stats.nacks_sent, 0u);
  EXPECT_EQ(stats.nacks_received, 0u);
  EXPECT_EQ(stats.soft_timeouts, 0u);
  EXPECT_EQ(stats.frames_duplicate, 0u);
}

TEST(LossyRounds, SameSeedSameRun) {
  const auto run = [] {
    SimulatedFlock flock(77, {.loss = 0.1, .duplication = 0.1, .reordering = 0.1, .corruption = 0.1});
    for (int round = 0; round < 50; ++round) flock.expect_right_round(0, 2);
    return std::pair(flock.network().frames(), LossyNetwork::now());
  };
  EXPECT_EQ(run(), run());
}

TEST(LossyRounds, TheSumsDoNotDependOnTheNumberOfDucks) {
  for (const int ducks : {1, 2, 4, 31, 32}) {
    SCOPED_TRACE(::testing::Message() << ducks << " ducks");
    SimulatedFlock flock(9, {.loss = 0.05, .reordering = 0.2}, {.ducks = ducks}); // the oracle is the same for all
    for (int round = 0; round < 20; ++round) flock.expect_right_round(round % 3, 3, round == 7 ? 5000.0f : 1.0f);
  }
}

TEST(LossyRounds, ForeignFramesAreDroppedAndCounted) {
  SimulatedFlock flock(11, {});
  std::mt19937_64 random(12);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 20; ++i) { // another engine's rounds, other ducks' replies, other protocols
      wire::Header h{.kind = static_cast<wire::Kind>(1 + random() % 6),
                     .session_tag = kTag + 1 + random() % 5,
                     .epoch = kEpoch,
                     .round = static_cast<std::uint32_t>(round + 1),
                     .layer = static_cast<std::uint16_t>(round % 3),
                     .duck = static_cast<std::uint16_t>(random() % 6)};
      std::vector<std::byte> payload;
      if (h.kind == wire::Kind::Request || h.kind == wire::Kind::Reply) {
        payload.resize(32 + 32 * (random() % 4));
        for (std::byte& b : payload) b = static_cast<std::byte>(random());
        h.count = 1;
        h.length = h.message_length = static_cast<std::uint32_t>(payload.size());
      }
      if (h.kind == wire::Kind::Refusal) h.code = 1;
      std::vector<std::byte> frame(wire::kHeaderBytes);
      wire::encode_header(h, payload, std::span(frame).first<wire::kHeaderBytes>());
      frame.insert(frame.end(), payload.begin(), payload.end());
      const bool to_host = random() % 2 == 0;
      flock.network().send(duck_endpoint(40), to_host ? host_endpoint(0) : duck_endpoint(static_cast<int>(random() % 5)), frame);
    }
    flock.expect_right_round(round % 3, 2);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(flock.ffn().stats().frames_foreign, 500u);
  EXPECT_GT(flock.duck(0).counts().foreign, 100u);
  EXPECT_EQ(flock.duck(0).counts().refusals, 0u);
}

TEST(LossyRounds, AReplyFromAnotherDucksAddressIsForeign) {
  SimulatedFlock flock(13, {});
  std::vector<std::byte> payload(wire::kReplyHeadBytes);
  wire::write_reply_head({.tokens = 1, .hidden = 32, .empty = true}, payload);
  const wire::Header h{.kind = wire::Kind::Reply,
                       .session_tag = kTag,
                       .epoch = kEpoch,
                       .round = 1,
                       .layer = 0,
                       .duck = 2,
                       .count = 1,
                       .length = 32,
                       .message_length = 32};
  std::vector<std::byte> frame(wire::kHeaderBytes);
  wire::encode_header(h, payload, std::span(frame).first<wire::kHeaderBytes>());
  frame.insert(frame.end(), payload.begin(), payload.end());
  flock.network().send(duck_endpoint(3), host_endpoint(0), frame); // duck 3 believes it is number 2
  flock.expect_right_round(0, 1);
  EXPECT_EQ(flock.ffn().stats().frames_foreign, 1u);
}

class DyingDuck : public ::testing::TestWithParam<milliseconds> {};

TEST_P(DyingDuck, IsNamedWithItsLayerSoonAfterTheTimeLimit) {
  const milliseconds dead_after = GetParam();
  SimulatedFlock flock(17, {.loss = 0.02}, {.dead_after = dead_after});
  for (int round = 0; round < 20; ++round) flock.expect_right_round(0, 1);
  flock.duck(3).die();
  TinyRequest request = random_request(flock.options().model, 2, 0, 2, flock.network().random());
  const Instant start = LossyNetwork::now();
  ASSERT_TRUE(flock.ffn().start(request.request));
  std::vector<float> y(request.x.size());
  const auto outcome = flock.ffn().finish(0, y);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kDuckDied);
  EXPECT_NE(outcome.error().message.find("duck4"), std::string::npos) << outcome.error().text();
  EXPECT_NE(outcome.error().message.find("layer 2"), std::string::npos) << outcome.error().text();
  EXPECT_FALSE(outcome.error().next.empty());
  EXPECT_GE(LossyNetwork::now() - start, dead_after);
  EXPECT_LE(LossyNetwork::now() - start, dead_after + seconds(1));
}

INSTANTIATE_TEST_SUITE_P(LossyRounds, DyingDuck, ::testing::Values(milliseconds(50), milliseconds(1000), milliseconds(5000)),
                         [](const auto& limit) { return "After" + std::to_string(limit.param.count()) + "ms"; });

TEST(LossyRounds, AllDucksDeadIsStillFoundInTime) {
  SimulatedFlock flock(18, {}, {.ducks = 32});
  for (int d = 0; d < 32; ++d) flock.duck(d).die();
  TinyRequest request = random_request(flock.options().model, 0, 0, 1, flock.network().random());
  const Instant start = LossyNetwork::now();
  ASSERT_TRUE(flock.ffn().start(request.request));
  std::vector<float> y(request.x.size());
  ASSERT_FALSE(flock.ffn().finish(0, y));
  EXPECT_LE(LossyNetwork::now() - start, flock.options().dead_after + seconds(1));
  EXPECT_LT(flock.ffn().stats().soft_timeouts, 32u * 60u);
}

TEST(LossyRounds, ABusyDuckIsNotDead) {
  SimulatedFlock flock(19, {.loss = 0.05}, {.dead_after = milliseconds(50)});
  flock.duck(1).hang(); // answers every question, for ten times the limit
  TinyRequest request = random_request(flock.options().model, 0, 0, 1, flock.network().random());
  ASSERT_TRUE(flock.ffn().start(request.request));
  flock.network().at(milliseconds(500), [&] { flock.duck(1).die(); });
  const Instant start = LossyNetwork::now();
  std::vector<float> y(request.x.size());
  ASSERT_FALSE(flock.ffn().finish(0, y));
  EXPECT_GE(LossyNetwork::now() - start, milliseconds(540));
  EXPECT_LE(LossyNetwork::now() - start, milliseconds(1550));
}

TEST(LossyRounds, APathThatEatsLargeFramesIsSaidToBeOne) {
  SimulatedFlock flock(20, {});
  flock.duck(2).hear_at_most(100); // questions pass, request fragments do not
  TinyRequest request = random_request(flock.options().model, 0, 0, 3, flock.network().random());
  ASSERT_TRUE(flock.ffn().start(request.request));
  std::vector<float> y(request.x.size());
  const auto outcome = flock.ffn().finish(0, y);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kDuckDied);
  EXPECT_NE(outcome.error().next.find("MTU"), std::string::npos) << outcome.error().text();
}

TEST(LossyRounds, AfterAFailureTheOthersServeTheNextRound) {
  SimulatedFlock flock(21, {.loss = 0.1, .duplication = 0.1}, {.dead_after = milliseconds(200)});
  flock.expect_right_round(0, 1);
  wire::Header h{.kind = wire::Kind::Refusal,
                 .session_tag = kTag,
                 .epoch = kEpoch,
                 .round = 2,
                 .layer = 1,
                 .duck = 0,
                 .code = static_cast<std::uint16_t>(wire::RefusalCode::StaleEpoch)};
  std::vector<std::byte> frame(wire::kHeaderBytes);
  wire::encode_header(h, {}, std::span(frame).first<wire::kHeaderBytes>());
  TinyRequest request = random_request(flock.options().model, 1, 0, 1, flock.network().random());
  flock.network().set_faults({});
  flock.network().send(duck_endpoint(0), host_endpoint(0), frame);
  ASSERT_TRUE(flock.ffn().start(request.request));
  std::vector<float> y(request.x.size());
  const auto outcome = flock.ffn().finish(0, y);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kFlockEpoch);
  EXPECT_NE(outcome.error().message.find("duck1"), std::string::npos);
  for (int round = 0; round < 10; ++round) flock.expect_right_round(0, 2); // late replies of round 2 do no harm
}

TEST(LossyRounds, OneTokenFarBeyondTheRangeClimbsTheLadderAlone) {
  SimulatedFlock flock(23, {.loss = 0.1});
  TinyRequest request = random_request(flock.options().model, 0, 0, 5, flock.network().random());
  amplify(request, flock.options().model, 2, 2000.0f * 256.0f * 64.0f); // far enough for the last rung
  int rungs = 0;
  const auto expected = expected_sum(flock.options().model, request.request, &rungs);
  ASSERT_EQ(rungs, 2);
  ASSERT_TRUE(flock.ffn().start(request.request));
  std::vector<float> y(request.x.size());
  const auto outcome = flock.ffn().finish(0, y);
  ASSERT_TRUE(outcome) << outcome.error().text();
  EXPECT_EQ(y, expected);
  EXPECT_EQ(flock.ffn().stats().repeats, 2u);
}

TEST(LossyRounds, BeyondTheLastRungAndNotFiniteAreErrorsThatNameTheLayer) {
  for (const float factor : {1e12f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    SimulatedFlock flock(24, {});
    TinyRequest request = random_request(flock.options().model, 1, 0, 3, flock.network().random());
    amplify(request, flock.options().model, 1, factor);
    ASSERT_TRUE(flock.ffn().start(request.request));
    std::vector<float> y(request.x.size());
    const auto outcome = flock.ffn().finish(0, y);
    ASSERT_FALSE(outcome) << factor;
    EXPECT_EQ(outcome.error().code, ErrorCode::kSumOverflow);
    EXPECT_NE(outcome.error().message.find("layer 1"), std::string::npos);
    EXPECT_NE(outcome.error().message.find("1 of 3 tokens"), std::string::npos) << outcome.error().text();
    flock.expect_right_round(0, 2);
  }
}

TEST(LossyRounds, TwoLanesInFlightDoNotMix) {
  SimulatedFlock flock(25, {.loss = 0.1, .duplication = 0.1, .reordering = 0.1});
  for (int round = 0; round < 100; ++round) {
    TinyRequest a = random_request(flock.options().model, 0, 0, 2, flock.network().random());
    TinyRequest b = random_request(flock.options().model, 1, 1, 3, flock.network().random());
    ASSERT_TRUE(flock.ffn().start(a.request));
    ASSERT_TRUE(flock.ffn().start(b.request));
    EXPECT_FALSE(flock.ffn().start(b.request)); // one round a lane
    std::vector<float> ya(a.x.size()), yb(b.x.size());
    const bool b_first = round % 2 == 0;
    const auto first = flock.ffn().finish(b_first ? 1 : 0, b_first ? yb : ya);
    const auto second = flock.ffn().finish(b_first ? 0 : 1, b_first ? ya : yb);
    ASSERT_TRUE(first && second);
    ASSERT_EQ(ya, expected_sum(flock.options().model, a.request));
    ASSERT_EQ(yb, expected_sum(flock.options().model, b.request));
  }
}

} // namespace
} // namespace ductl::testing
