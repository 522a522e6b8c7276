#include "engine/moe/round.hpp"

#include "agent/wire/request.hpp"
#include "tests/moe/support/tiny_model.hpp"

#include <gtest/gtest.h>
#include <optional>

namespace ductl::engine {
namespace {

using std::chrono::milliseconds;
using testing::TinyModel;
using testing::TinyRequest;

// A round whose ducks are played by hand: replies are all of one value, so that a sum tells who was counted.
class HostRoundTest : public ::testing::Test {
protected:
  static constexpr int kHidden = 64;
  static constexpr std::size_t kMtu = wire::kHeaderBytes + 128;

  HostRoundTest() { make(4); }

  void make(int ducks, std::uint32_t first_round = 1) {
    HostRoundOptions options{.ducks = {},
                             .lane = 1,
                             .session_tag = 7,
                             .epoch = 2,
                             .first_round = first_round,
                             .hidden = kHidden,
                             .tokens_max = 8,
                             .compact_reply = compact_,
                             .mtu = kMtu,
                             .dead_after = milliseconds(1000)};
    for (int d = 0; d < ducks; ++d) {
      options.ducks.push_back({.name = "duck" + std::to_string(d), .port_index = d % 2, .data = {.address = 1u + d, .port = 1}});
    }
    round_.emplace(std::move(options));
  }

  void start(int tokens = 1) {
    request_ = testing::random_request({.layers = 4, .hidden = kHidden, .experts = 4}, 3, 1, tokens, random_);
    round_->start(request_.request, exponent_, now_);
  }

  struct Out {
    agent::Endpoint to;
    wire::Header header;
    std::vector<std::byte> payload;
  };
  std::vector<Out> said() {
    std::vector<Out> all;
    for (int port = 0; port < 2; ++port) {
      while (true) {
        const auto frames = round_->frames(port);
        if (frames.empty()) break;
        for (const auto& f : frames) {
          std::vector<std::byte> bytes(f.head.begin(), f.head.end());
          bytes.insert(bytes.end(), f.body.begin(), f.body.end());
          const auto frame = wire::decode_frame(bytes);
          EXPECT_TRUE(frame.has_value());
          if (frame) all.push_back({f.to, frame->header, {frame->payload.begin(), frame->payload.end()}});
        }
        round_->sent(port, frames.size(), now_);
      }
    }
    return all;
  }

  wire::Header header(wire::Kind kind, int duck, std::uint32_t round) const {
    return {.kind = kind,
            .lane = 1,
            .session_tag = 7,
            .epoch = 2,
            .round = round,
            .layer = 3,
            .duck = static_cast<std::uint16_t>(duck)};
  }
  void feed(const wire::Header& h, std::span<const std::byte> payload = {}) {
    round_->feed({.header = h, .payload = payload}, now_);
  }

  std::vector<std::byte> reply_message(int tokens, std::int32_t value, std::uint64_t guard) {
    wire::ReplyBuffer reply(tokens, kHidden, compact_);
    reply.clear(tokens);
    for (int t = 0; t < tokens; ++t) {
      std::fill_n(reply.sums(t), kHidden, value);
      reply.complete(t, guard);
    }
    reply.finish(1000, 1);
    return {reply.message().begin(), reply.message().end()};
  }
  void feed_fragment(int duck, std::uint32_t round, const std::vector<std::byte>& message, int fragment, std::uint8_t rung = 0) {
    const wire::Tiling tiling = wire::make_tiling(message.size(), kMtu);
    wire::Header h = header(wire::Kind::Reply, duck, round);
    h.rung = rung;
    h.fragment = static_cast<std::uint16_t>(fragment);
    h.count = tiling.count;
    h.offset = static_cast<std::uint32_t>(tiling.offset(fragment));
    h.length = static_cast<std::uint32_t>(tiling.length(fragment));
    h.message_length = tiling.message_bytes;
    feed(h, tiling.cut(message, fragment));
  }
  void reply(int duck, std::uint32_t round, int tokens, std::int32_t value, std::uint64_t guard = 100, std::uint8_t rung = 0) {
    const auto message = reply_message(tokens, value, guard);
    for (int f = 0; f < wire::make_tiling(message.size(), kMtu).count; ++f) feed_fragment(duck, round, message, f, rung);
  }
  std::vector<float> finish() {
    std::vector<float> y(request_.x.size());
    EXPECT_TRUE(round_->finished());
    const auto times = round_->finish(y, now_);
    EXPECT_TRUE(times) << times.error().text();
    return y;
  }

  std::mt19937_64 random_{3};
  std::vector<std::int16_t> exponent_{4};
  bool compact_ = false;
  std::optional<HostRound> round_;
  TinyRequest request_;
  Instant now_ = Instant(std::chrono::hours(1));
};

TEST_F(HostRoundTest, SendsEveryFragmentToEveryDuckOnceAndLookingTheSame) {
  start(3);
  const auto out = said();
  const std::size_t fragments = out.front().header.count;
  ASSERT_GE(fragments, 3u);
  ASSERT_EQ(out.size(), 4 * fragments);
  for (const Out& o : out) EXPECT_EQ(o.header.duck, wire::kAllDucks);
  EXPECT_TRUE(said().empty());
}

TEST_F(HostRoundTest, SumsEveryDuckOnceWhateverComesTwice) {
  start();
  said();
  const auto message = reply_message(1, 10, 100);
  reply(0, 1, 1, 1);
  reply(0, 1, 1, 1);
  for (const int f : {2, 0, 1, 0, 2, 1}) feed_fragment(1, 1, message, f);
  reply(2, 1, 1, 100);
  EXPECT_FALSE(round_->finished());
  reply(3, 1, 1, 1000);
  EXPECT_EQ(finish(), std::vector<float>(kHidden, 1111.0f / 16));
  EXPECT_GT(round_->counts().duplicate, 0u);
}

TEST_F(HostRoundTest, CompactRepliesAreAddedOnceTheyAreWhole) {
  compact_ = true;
  make(4);
  start(2);
  said();
  reply(0, 1, 2, 65536 + 2); // shift 2: 16384.5 of it, to even
  const auto message = reply_message(2, 10, 100);
  ASSERT_EQ(wire::make_tiling(message.size(), kMtu).count, 3);
  for (const int f : {2, 0, 1, 0, 2, 1}) feed_fragment(1, 1, message, f);
  feed(header(wire::Kind::Busy, 2, 1));
  reply(2, 1, 2, 100);
  EXPECT_FALSE(round_->finished());
  reply(3, 1, 2, -1000);
  EXPECT_EQ(finish(), std::vector<float>(2 * kHidden, (65536.0f + 10 + 100 - 1000) / 16));
}

TEST_F(HostRoundTest, RepliesOfTheOtherFormAreMalformed) {
  start();
  said();
  compact_ = true;
  reply(0, 1, 1, 1);
  EXPECT_GT(round_->counts().malformed, 0u);
  for (int d = 1; d < 4; ++d) reply(d, 1, 1, 1);
  EXPECT_FALSE(round_->finished());
}

TEST_F(HostRoundTest, AShiftThatNoDuckWritesEndsTheRoundByName) {
  compact_ = true;
  make(2);
  start();
  said();
  auto message = reply_message(1, 1, 1);
  message[wire::reply_sums_offset(1)] = std::byte{17};
  for (int f = 0; f < wire::make_tiling(message.size(), kMtu).count; ++f) feed_fragment(1, 1, message, f);
  ASSERT_TRUE(round_->finished());
  std::vector<float> y(kHidden);
  const auto ended = round_->finish(y, now_);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kAgentRefused);
  EXPECT_NE(ended.error().message.find("duck1"), std::string::npos);
}

TEST_F(HostRoundTest, EmptyRepliesCountAsZero) {
  start(2);
  said();
  for (int d = 0; d < 4; ++d) {
    wire::ReplyBuffer reply(2, kHidden);
    reply.clear(2);
    reply.finish(0, 0);
    wire::Header h = header(wire::Kind::Reply, d, 1);
    h.count = 1;
    h.length = h.message_length = wire::kReplyHeadBytes;
    feed(h, reply.message());
  }
  EXPECT_EQ(finish(), std::vector<float>(2 * kHidden, 0.0f));
}

TEST_F(HostRoundTest, SumsWrapOnTheirWay) {
  start();
  said();
  reply(0, 1, 1, INT32_MAX);
  reply(1, 1, 1, INT32_MAX); // beyond 32 bits here,
  reply(2, 1, 1, INT32_MIN);
  reply(3, 1, 1, INT32_MIN + 2); // and back
  EXPECT_EQ(finish(), std::vector<float>(kHidden, 0.0f));
}

TEST_F(HostRoundTest, AGapInAReplyIsAskedForAtOnceAndOnce) {
  start();
  said();
  const auto message = reply_message(1, 1, 1);
  ASSERT_EQ(wire::make_tiling(message.size(), kMtu).count, 3);
  feed_fragment(2, 1, message, 2);
  const auto nacks = said();
  ASSERT_EQ(nacks.size(), 1u);
  EXPECT_EQ(nacks[0].header.kind, wire::Kind::ReplyNack);
  EXPECT_EQ(nacks[0].header.duck, 2);
  EXPECT_EQ(nacks[0].header.count, 3);
  EXPECT_EQ(nacks[0].payload[0], std::byte{0b011});
  feed_fragment(2, 1, message, 0);
  feed_fragment(2, 1, message, 2);
  EXPECT_TRUE(said().empty());
}

TEST_F(HostRoundTest, ResendsToTheDuckThatAsksAndToNobodyElse) {
  start(3);
  const std::uint16_t count = said().front().header.count;
  wire::Header h = header(wire::Kind::RequestNack, 3, 1);
  h.count = count;
  std::vector<std::byte> bitmap(wire::bitmap_bytes(count));
  bitmap[0] = std::byte{0b101};
  h.length = h.message_length = static_cast<std::uint32_t>(bitmap.size());
  feed(h, bitmap);
  auto out = said();
  ASSERT_EQ(out.size(), 2u);
  for (const Out& o : out) EXPECT_EQ(o.to.address, 4u);
  EXPECT_EQ(out[0].header.fragment, 0);
  EXPECT_EQ(out[1].header.fragment, 2);
  h.count = 0; // knows nothing of the round
  h.length = h.message_length = 0;
  feed(h);
  EXPECT_EQ(said().size(), count);
}

TEST_F(HostRoundTest, SilenceIsAskedAboutWithGrowingPausesAndThenIsDeath) {
  start();
  said();
  for (int d = 0; d < 3; ++d) reply(d, 1, 1, 1);
  std::vector<Instant> asked;
  const Instant begin = now_;
  while (!round_->finished() && now_ - begin < milliseconds(3000)) {
    now_ = std::max(now_ + Duration(1), round_->deadline());
    round_->tick(now_);
    for (const Out& o : said()) {
      EXPECT_EQ(o.header.kind, wire::Kind::ReplyNack);
      EXPECT_EQ(o.header.duck, 3);
      asked.push_back(now_);
    }
  }
  ASSERT_GE(asked.size(), 20u);
  EXPECT_GT(asked[2] - asked[1], asked[1] - asked[0]);
  EXPECT_GE(now_ - begin, milliseconds(1000));
  EXPECT_LT(now_ - begin, milliseconds(1100));
  std::vector<float> y(kHidden);
  const auto outcome = round_->finish(y, now_);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kDuckDied);
  EXPECT_EQ(outcome.error().place, "duck3");
}

TEST_F(HostRoundTest, ALoopThatSleptTooLongAsksBeforeItGivesUp) {
  start();
  said();
  now_ += milliseconds(60000); // this process was stopped, not the ducks
  round_->tick(now_);
  EXPECT_FALSE(round_->finished());
}

TEST_F(HostRoundTest, ManyLateDucksAreAskedAFewAtATime) {
  make(32);
  start();
  said();
  now_ += milliseconds(20); // the first guess: five floors of 4 ms
  round_->tick(now_);
  EXPECT_EQ(said().size(), 4u);
  round_->tick(now_);
  EXPECT_TRUE(said().empty());
}

TEST_F(HostRoundTest, TheLadderRepeatsOnlyTokensBeyondTheRange) {
  start(3);
  said();
  // Token 1's guard passes the limit only in total.
  for (int d = 0; d < 4; ++d) {
    wire::ReplyBuffer buffer(3, kHidden);
    buffer.clear(3);
    for (int t = 0; t < 3; ++t) {
      std::fill_n(buffer.sums(t), kHidden, 16 * (t + 1));
      buffer.complete(t, t == 1 ? wire::kGuardLimit / 4 : wire::kGuardLimit / 4 - 1);
    }
    buffer.finish(1, 1);
    const std::vector<std::byte> message(buffer.message().begin(), buffer.message().end());
    for (int f = 0; f < wire::make_tiling(message.size(), kMtu).count; ++f) feed_fragment(d, 1, message, f);
  }
  EXPECT_FALSE(round_->finished());
  auto out = said();
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0].header.rung, 1);
  EXPECT_EQ(out[0].header.round, 2u);
  EXPECT_EQ(out[0].header.message_length, wire::request_bytes({.tokens = 1, .hidden = kHidden, .choices = 2, .bf16 = false}));
  reply(0, 1, 3, 5); // a late one of the first rung
  for (int d = 0; d < 4; ++d) reply(d, 2, 1, 3, 10, 1);
  const auto y = finish();
  EXPECT_EQ(y[0], 4.0f);
  EXPECT_EQ(y[kHidden], 12.0f * 256 / 16);
  EXPECT_EQ(y[2 * kHidden], 12.0f);
  EXPECT_EQ(round_->counts().repeats, 1u);
}

TEST_F(HostRoundTest, BeyondTheLastRungIsAnError) {
  start();
  for (std::uint8_t rung = 0; rung < 3; ++rung) {
    said();
    ASSERT_FALSE(round_->finished());
    for (int d = 0; d < 4; ++d) reply(d, 1u + rung, 1, 1, wire::kGuardMax, rung);
  }
  ASSERT_TRUE(round_->finished());
  std::vector<float> y(kHidden);
  EXPECT_EQ(round_->finish(y, now_).error().code, ErrorCode::kSumOverflow);
  EXPECT_FALSE(round_->in_flight());
}

TEST_F(HostRoundTest, RefusalsBecomeErrorsThatSayWhatToDo) {
  const std::pair<wire::RefusalCode, ErrorCode> cases[] = {{wire::RefusalCode::StaleEpoch, ErrorCode::kFlockEpoch},
                                                           {wire::RefusalCode::UnknownLayer, ErrorCode::kFlockEpoch},
                                                           {wire::RefusalCode::WrongHidden, ErrorCode::kFlockEpoch},
                                                           {wire::RefusalCode::Malformed, ErrorCode::kAgentRefused},
                                                           {wire::RefusalCode::TooLarge, ErrorCode::kAgentRefused}};
  std::uint32_t number = 1;
  for (const auto& [refusal, code] : cases) {
    start();
    said();
    wire::Header h = header(wire::Kind::Refusal, 1, number++);
    h.code = static_cast<std::uint16_t>(refusal);
    feed(h);
    ASSERT_TRUE(round_->finished());
    std::vector<float> y(kHidden);
    const auto outcome = round_->finish(y, now_);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, code);
    EXPECT_NE(outcome.error().message.find("duck1"), std::string::npos);
    EXPECT_FALSE(outcome.error().next.empty());
  }
}

TEST_F(HostRoundTest, FramesThatDoNotFitTheQuestionAreCountedAndIgnored) {
  start(2);
  said();
  reply(0, 9, 2, 1);       // of a round not asked
  reply(0, 1, 3, 1);       // of more tokens
  reply(0, 1, 2, 1, 1, 1); // of another rung
  wire::Header h = header(wire::Kind::Busy, 0, 1);
  h.epoch = 3;
  feed(h);
  EXPECT_GE(round_->counts().malformed, 3u);
  for (int d = 0; d < 4; ++d) reply(d, 1, 2, 4);
  EXPECT_EQ(finish(), std::vector<float>(2 * kHidden, 1.0f));
}

TEST_F(HostRoundTest, RoundNumbersWrap) {
  make(1, 0xffffffff);
  for (const std::uint32_t number : {0xffffffffu, 0u, 1u}) {
    start();
    said();
    reply(0, number, 1, 16);
    EXPECT_EQ(finish(), std::vector<float>(kHidden, 1.0f));
  }
}

TEST_F(HostRoundTest, FramesThatWereNotTakenAreOfferedAgain) {
  start(3);
  const auto first = round_->frames(0);
  ASSERT_GE(first.size(), 3u);
  const std::size_t count = first.size();
  round_->sent(0, 1, now_);
  EXPECT_EQ(round_->frames(0).size(), count - 1);
  EXPECT_TRUE(round_->has_frames());
}

} // namespace
} // namespace ductl::engine
