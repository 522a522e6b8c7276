#include "agent/wire/duck_round.hpp"
#include "agent/wire/request.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace ductl::wire {
namespace {

using std::chrono::milliseconds;

constexpr agent::Endpoint kHost{.address = 0x7f000001, .port = 9000};
constexpr std::uint64_t kTag = 42;
constexpr int kHidden = 64;
constexpr std::size_t kMtu = kHeaderBytes + 128;

struct Sent {
  agent::Endpoint to;
  Header header;
  std::vector<std::byte> payload;
};

// A duck, number 3, and a host's hands: builds request frames, feeds them, and reads what the duck says.
class DuckRoundTest : public ::testing::Test {
protected:
  DuckRoundTest() { begin_session(); }

  void begin_session() {
    duck_.begin_session({.tag = kTag, .epoch = 5, .duck = 3, .hidden = kHidden, .tokens_max = 4, .mtu = kMtu});
  }

  static std::vector<std::byte> request_message(int tokens) {
    const RequestShape shape{.tokens = tokens, .hidden = kHidden, .choices = tokens, .bf16 = false};
    std::vector<std::byte> message(request_bytes(shape));
    RequestWriter writer(message, shape);
    const std::vector<float> x(kHidden, 1.5f);
    for (int t = 0; t < tokens; ++t) {
      writer.token(x, 1);
      writer.choice(t, 1.0f);
    }
    return message;
  }

  static Header header(Kind kind, std::uint32_t round) {
    return {.kind = kind, .session_tag = kTag, .epoch = 5, .round = round, .layer = 9, .duck = kAllDucks};
  }

  static std::vector<std::byte> seal(const Header& h, std::span<const std::byte> payload) {
    std::vector<std::byte> frame(kHeaderBytes);
    encode_header(h, payload, std::span(frame).first<kHeaderBytes>());
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
  }

  std::vector<std::vector<std::byte>> request_frames(std::uint32_t round, int tokens = 2) {
    const auto message = request_message(tokens);
    const Tiling tiling = make_tiling(message.size(), kMtu);
    std::vector<std::vector<std::byte>> frames;
    for (int f = 0; f < tiling.count; ++f) {
      Header h = header(Kind::Request, round);
      h.fragment = static_cast<std::uint16_t>(f);
      h.count = tiling.count;
      h.offset = static_cast<std::uint32_t>(tiling.offset(f));
      h.length = static_cast<std::uint32_t>(tiling.length(f));
      h.message_length = tiling.message_bytes;
      frames.push_back(seal(h, tiling.cut(message, f)));
    }
    return frames;
  }

  void feed(const std::vector<std::byte>& frame) { duck_.feed(kHost, frame, now_); }
  void feed_all(const std::vector<std::vector<std::byte>>& frames) {
    for (const auto& frame : frames) feed(frame);
  }

  void ask(std::uint32_t round, std::uint16_t count = 0, std::vector<std::byte> bitmap = {}) {
    Header h = header(Kind::ReplyNack, round);
    h.duck = 3;
    h.count = count;
    h.length = h.message_length = static_cast<std::uint32_t>(bitmap.size());
    feed(seal(h, bitmap));
  }

  std::vector<Sent> said() {
    std::vector<Sent> all;
    while (true) {
      const auto frames = duck_.frames();
      if (frames.empty()) return all;
      for (const auto& f : frames) {
        std::vector<std::byte> bytes(f.head.begin(), f.head.end());
        bytes.insert(bytes.end(), f.body.begin(), f.body.end());
        EXPECT_LE(bytes.size(), kMtu);
        const auto frame = decode_frame(bytes);
        EXPECT_TRUE(frame.has_value());
        if (frame) all.push_back({f.to, frame->header, {frame->payload.begin(), frame->payload.end()}});
      }
      duck_.sent(frames.size());
    }
  }

  ReadyRequest take() {
    const auto lane = duck_.next_ready();
    EXPECT_TRUE(lane.has_value());
    return duck_.take(*lane);
  }

  void finish(const ReadyRequest& request, int tokens = 2) {
    request.reply->clear(tokens);
    for (int t = 0; t < tokens; ++t) std::fill_n(request.reply->sums(t), kHidden, t + 1);
    request.reply->finish(1000, 1);
    duck_.complete(request.lane, request.round, now_);
  }

  DuckRound duck_;
  Instant now_ = Instant(std::chrono::hours(1));
};

TEST_F(DuckRoundTest, AssemblesARequestInAnyOrder) {
  auto frames = request_frames(1);
  ASSERT_GE(frames.size(), 4u);
  std::swap(frames[0], frames[3]);
  std::swap(frames[1], frames[2]);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_FALSE(duck_.next_ready().has_value());
    feed(frames[i]);
  }
  const ReadyRequest request = take();
  EXPECT_EQ(request.round, 1u);
  EXPECT_EQ(request.layer, 9);
  EXPECT_EQ(std::vector<std::byte>(request.message.begin(), request.message.end()), request_message(2));
}

TEST_F(DuckRoundTest, RepliesInFragmentOrderToWhoeverAsked) {
  feed_all(request_frames(1));
  finish(take());
  const auto frames = said();
  ASSERT_GE(frames.size(), 4u);
  std::vector<std::byte> message;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].to, kHost);
    EXPECT_EQ(frames[i].header.kind, Kind::Reply);
    EXPECT_EQ(frames[i].header.fragment, i);
    EXPECT_EQ(frames[i].header.duck, 3);
    EXPECT_EQ(frames[i].header.round, 1u);
    message.insert(message.end(), frames[i].payload.begin(), frames[i].payload.end());
  }
  EXPECT_EQ(message.size(), reply_bytes(2, kHidden));
  EXPECT_EQ(load<std::int32_t>(message, reply_sums_offset(2) + 4 * kHidden), 2);
}

TEST_F(DuckRoundTest, AGapIsReportedAtOnceAndOnlyOnce) {
  const auto frames = request_frames(1);
  feed(frames[0]);
  EXPECT_TRUE(said().empty());
  feed(frames[3]); // 1 and 2 are lost
  auto nacks = said();
  ASSERT_EQ(nacks.size(), 1u);
  EXPECT_EQ(nacks[0].header.kind, Kind::RequestNack);
  EXPECT_EQ(nacks[0].header.count, frames.size());
  EXPECT_EQ(nacks[0].payload[0], std::byte{0b0110});
  feed(frames[4]);
  EXPECT_TRUE(said().empty());
  feed(frames[2]);
  feed(frames[1]);
  EXPECT_TRUE(said().empty());
}

TEST_F(DuckRoundTest, TailLossIsReportedWhenAsked) {
  const auto frames = request_frames(1);
  feed(frames[0]);
  EXPECT_TRUE(said().empty());
  ask(1);
  const auto nacks = said();
  ASSERT_EQ(nacks.size(), 1u);
  EXPECT_EQ(nacks[0].header.kind, Kind::RequestNack);
  EXPECT_EQ(nacks[0].payload[0], static_cast<std::byte>((1u << frames.size()) - 2u) & std::byte{0xff});
}

TEST_F(DuckRoundTest, AskedForARoundItNeverHeardOfItWantsAllOfIt) {
  ask(7);
  const auto nacks = said();
  ASSERT_EQ(nacks.size(), 1u);
  EXPECT_EQ(nacks[0].header.kind, Kind::RequestNack);
  EXPECT_EQ(nacks[0].header.round, 7u);
  EXPECT_EQ(nacks[0].header.count, 0);
  feed_all(request_frames(7));
  EXPECT_TRUE(duck_.next_ready().has_value());
}

TEST_F(DuckRoundTest, SaysBusyFromTheWholeRequestToTheReplyButOnceABurst) {
  feed_all(request_frames(1));
  ask(1);
  auto frames = said();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.kind, Kind::Busy);
  const ReadyRequest request = take();
  ask(1);
  ask(1);
  ask(1);
  frames = said();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.kind, Kind::Busy);
  finish(request);
  EXPECT_EQ(said().front().header.kind, Kind::Reply);
}

TEST_F(DuckRoundTest, ResendsExactlyTheFragmentsThatAreMissing) {
  feed_all(request_frames(1));
  finish(take());
  const std::size_t count = said().size();
  ask(1, static_cast<std::uint16_t>(count), {std::byte{0b1010}});
  const auto frames = said();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].header.fragment, 1);
  EXPECT_EQ(frames[1].header.fragment, 3);
  ask(1); // the host has nothing of it
  EXPECT_EQ(said().size(), count);
}

TEST_F(DuckRoundTest, ARepeatedRequestOfAFinishedRoundRepeatsTheReplyButNotInBursts) {
  const auto request = request_frames(1);
  feed_all(request);
  finish(take());
  const std::size_t count = said().size();
  feed_all(request); // doubled by the network, at once
  EXPECT_TRUE(said().empty());
  EXPECT_FALSE(duck_.next_ready().has_value()); // and not computed again
  now_ += milliseconds(5);
  feed_all(request);
  feed_all(request);
  EXPECT_EQ(said().size(), count);
}

TEST_F(DuckRoundTest, StaleForeignAndDamagedFramesAreDroppedAndCounted) {
  feed_all(request_frames(8));
  auto stale = request_frames(7)[0];
  feed(stale);
  EXPECT_EQ(duck_.counts().stale, 1u);

  Header h = header(Kind::ReplyNack, 8);
  h.session_tag = kTag + 1;
  feed(seal(h, {}));
  h = header(Kind::ReplyNack, 8);
  h.duck = 4; // another duck's
  feed(seal(h, {}));
  h = header(Kind::Busy, 8); // a duck's own speech
  feed(seal(h, {}));
  EXPECT_EQ(duck_.counts().foreign, 3u);

  stale.back() ^= std::byte{1};
  feed(stale);
  feed({});
  EXPECT_EQ(duck_.counts().corrupt, 2u);
  EXPECT_TRUE(said().empty());
}

TEST_F(DuckRoundTest, ANewerRoundTakesTheLaneOver) {
  feed_all(request_frames(1));
  const ReadyRequest old = take();
  EXPECT_TRUE(duck_.is_current(old.lane, old.round));
  feed_all(request_frames(2));
  EXPECT_FALSE(duck_.is_current(old.lane, old.round));
  duck_.complete(old.lane, old.round, now_); // too late: ignored
  EXPECT_TRUE(said().empty());
  EXPECT_EQ(take().round, 2u);
}

TEST_F(DuckRoundTest, LanesAreServedInTheOrderOfTheirRequests) {
  for (const std::uint8_t lane : {std::uint8_t{2}, std::uint8_t{0}, std::uint8_t{3}}) {
    const auto message = request_message(1);
    const Tiling tiling = make_tiling(message.size(), 4096);
    Header h = header(Kind::Request, 1);
    h.lane = lane;
    h.count = tiling.count;
    h.length = h.message_length = tiling.message_bytes;
    feed(seal(h, message));
  }
  EXPECT_EQ(take().lane, 2);
  EXPECT_EQ(take().lane, 0);
  EXPECT_EQ(take().lane, 3);
}

TEST_F(DuckRoundTest, AnotherEpochIsRefusedOnceAndAgainWhenAsked) {
  for (auto frame : request_frames(1)) {
    Header h = decode_frame(frame)->header;
    const std::vector<std::byte> payload(frame.begin() + kHeaderBytes, frame.end());
    h.epoch = 6;
    feed(seal(h, payload));
  }
  auto frames = said();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.kind, Kind::Refusal);
  EXPECT_EQ(frames[0].header.code, static_cast<int>(RefusalCode::StaleEpoch));
  EXPECT_EQ(frames[0].header.epoch, 6u);
  EXPECT_EQ(frames[0].header.session_tag, kTag);
  EXPECT_EQ(frames[0].header.round, 1u);
  EXPECT_EQ(frames[0].header.layer, 9);
  EXPECT_EQ(frames[0].header.duck, 3);
  EXPECT_EQ(frames[0].to, kHost);
  Header h = header(Kind::ReplyNack, 1);
  h.epoch = 6;
  feed(seal(h, {}));
  EXPECT_EQ(said().size(), 1u);
  EXPECT_FALSE(duck_.next_ready().has_value());
}

TEST_F(DuckRoundTest, ARefusedRequestStaysRefused) {
  feed_all(request_frames(1));
  const ReadyRequest request = take();
  duck_.refuse(request.lane, request.round, RefusalCode::UnknownLayer);
  EXPECT_EQ(said().front().header.code, static_cast<int>(RefusalCode::UnknownLayer));
  feed_all(request_frames(1));
  EXPECT_TRUE(said().empty());
  ask(1);
  EXPECT_EQ(said().front().header.code, static_cast<int>(RefusalCode::UnknownLayer));
  feed_all(request_frames(2)); // the next round is a new chance
  EXPECT_TRUE(duck_.next_ready().has_value());
}

TEST_F(DuckRoundTest, ARequestBeyondTheSessionsRoomIsRefused) {
  Header h = header(Kind::Request, 1);
  h.count = 8192;
  h.length = 128;
  h.message_length = 128 * 8192;
  feed(seal(h, std::vector<std::byte>(128)));
  EXPECT_EQ(said().front().header.code, static_cast<int>(RefusalCode::TooLarge));
}

TEST_F(DuckRoundTest, FragmentsOfAnotherTilingDoNotMix) {
  const auto frames = request_frames(1);
  feed(frames[0]);
  Header h = header(Kind::Request, 1);
  h.fragment = 1;
  h.count = 2;
  h.offset = 160;
  h.length = 100;
  h.message_length = 260;
  feed(seal(h, std::vector<std::byte>(100)));
  EXPECT_EQ(duck_.counts().malformed, 1u);
}

TEST_F(DuckRoundTest, WithoutASessionEverythingIsForeign) {
  duck_.begin_session({});
  feed_all(request_frames(1));
  EXPECT_EQ(duck_.counts().foreign, request_frames(1).size());
  EXPECT_TRUE(said().empty());
}

TEST_F(DuckRoundTest, WithoutAModelEverythingIsRefused) {
  duck_.begin_session({.tag = kTag, .epoch = 5, .duck = 3, .hidden = 0, .mtu = kMtu});
  feed_all(request_frames(1));
  ASSERT_EQ(said().size(), 1u);
  EXPECT_EQ(duck_.counts().refusals, 1u);
}

TEST_F(DuckRoundTest, ANewSessionForgetsTheRoundsOfTheOldOne) {
  feed_all(request_frames(100));
  begin_session();
  EXPECT_FALSE(duck_.next_ready().has_value());
  feed_all(request_frames(1)); // a new engine counts from one again
  EXPECT_TRUE(duck_.next_ready().has_value());
}

TEST_F(DuckRoundTest, FramesThatWereNotTakenAreOfferedAgain) {
  feed_all(request_frames(1));
  finish(take());
  const auto first = duck_.frames();
  ASSERT_GE(first.size(), 4u);
  const std::size_t count = first.size();
  duck_.sent(1);
  const auto rest = said();
  ASSERT_EQ(rest.size(), count - 1);
  EXPECT_EQ(rest[0].header.fragment, 1);
}

} // namespace
} // namespace ductl::wire
