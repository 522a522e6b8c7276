#include "agent/wire/bytes.hpp"
#include "agent/wire/fragments.hpp"
#include "agent/wire/header.hpp"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace ductl::wire {
namespace {

std::vector<std::byte> seal(Header header, std::span<const std::byte> payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> frame(kHeaderBytes + payload.size());
  encode_header(header, payload, std::span(frame).first<kHeaderBytes>());
  std::copy(payload.begin(), payload.end(), frame.begin() + kHeaderBytes);
  return frame;
}

std::vector<std::byte> some_bytes(std::size_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Header request_header() {
  return {.kind = Kind::Request,
          .lane = 2,
          .rung = 1,
          .session_tag = 0x1122334455667788,
          .epoch = 0x99aabbcc,
          .round = 0xddeeff01,
          .layer = 0x0203,
          .duck = kAllDucks,
          .fragment = 1,
          .count = 3,
          .offset = 64,
          .length = 64,
          .message_length = 150,
          .code = 0};
}

// A change that keeps the checksum honest: what a peer with a fault would send.
template <class T> std::vector<std::byte> patched(std::vector<std::byte> frame, std::size_t offset, T value) {
  store(std::span(frame), offset, value);
  const std::span<const std::byte> whole(frame);
  // CRC32C bit by bit, as the textbook has it.
  std::uint32_t crc = ~0u;
  const auto add = [&crc](std::byte byte) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1u)));
  };
  for (std::size_t i = 0; i < frame.size(); ++i) add(i >= 50 && i < 54 ? std::byte{0} : whole[i]);
  store(std::span(frame), 50, ~crc);
  return frame;
}

TEST(FrameHeader, EveryFieldLiesWhereTheDocumentSays) {
  const auto payload = some_bytes(64);
  const auto frame = seal(request_header(), payload);
  const auto at = [&](std::size_t i) { return static_cast<unsigned>(frame[i]); };
  ASSERT_EQ(frame.size(), 54u + 64u);
  const std::vector<unsigned> expected = {'D',  'U',  'C',  'K',  1,    1,    2,    1,    // magic version kind lane rung
                                          0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // session tag
                                          0xcc, 0xbb, 0xaa, 0x99, 0x01, 0xff, 0xee, 0xdd, // epoch round
                                          0x03, 0x02, 0xff, 0xff, 1,    0,    3,    0,    // layer duck fragment count
                                          64,   0,    0,    0,    64,   0,    0,    0,    150, 0, 0, 0, // offset length message
                                          0,    0,    0,    0,    0,    0};                             // code reserved
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(at(i), expected[i]) << "byte " << i;
}

TEST(FrameHeader, ComesBackAsItWasSent) {
  const auto payload = some_bytes(64);
  Header header = request_header();
  const auto frame = decode_frame(seal(header, payload));
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header, header);
}

TEST(FrameHeader, ChecksumIsCrc32c) {
  // patched() computes it in its own slow way: a field set to what it is must give the encoder's own frame.
  const auto frame = seal(request_header(), some_bytes(64));
  EXPECT_EQ(patched(frame, 4, kVersion), frame);
}

TEST(FrameHeader, EverySingleBitErrorIsSeen) {
  const auto frame = seal(request_header(), some_bytes(64));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    auto damaged = frame;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto result = decode_frame(damaged);
    ASSERT_FALSE(result) << "bit " << bit;
    ASSERT_EQ(result.error(), Fault::Corrupt) << "bit " << bit;
  }
}

TEST(FrameHeader, EveryTruncationIsSeen) {
  const auto frame = seal(request_header(), some_bytes(64));
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const auto result = decode_frame(std::span(frame).first(length));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), length < kHeaderBytes ? Fault::Short : Fault::Corrupt);
  }
}

TEST(FrameHeader, RefusesHonestFramesOfAnotherProtocol) {
  const auto frame = seal(request_header(), some_bytes(64));
  EXPECT_EQ(decode_frame(patched(frame, 0, std::uint32_t{0x4b435545})).error(), Fault::Magic);
  EXPECT_EQ(decode_frame(patched(frame, 4, std::uint8_t{2})).error(), Fault::Version);
}

TEST(FrameHeader, EveryKindLaneAndRungOutOfRangeIsMalformed) {
  const auto frame = seal(request_header(), some_bytes(64));
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    const auto kind = decode_frame(patched(frame, 5, byte));
    EXPECT_EQ(kind.has_value(), value == 1 || value == 2) << value; // the others have no such fragment
    EXPECT_EQ(decode_frame(patched(frame, 6, byte)).has_value(), value < kLanesMax) << value;
    EXPECT_EQ(decode_frame(patched(frame, 7, byte)).has_value(), value < kRungsMax) << value;
  }
  EXPECT_EQ(decode_frame(patched(frame, 46, std::uint32_t{1})).error(), Fault::Malformed);
  EXPECT_EQ(decode_frame(patched(frame, 44, std::uint16_t{1})).error(), Fault::Malformed); // a code without a refusal
}

TEST(FrameHeader, LengthsAndTilingThatContradictEachOtherAreMalformed) {
  const auto frame = seal(request_header(), some_bytes(64));
  const auto fault = [&](std::size_t offset, auto value) { return decode_frame(patched(frame, offset, value)).has_value(); };
  EXPECT_FALSE(fault(36, std::uint32_t{63})); // not the payload's length
  EXPECT_FALSE(fault(36, std::uint32_t{0xffffffff}));
  EXPECT_FALSE(fault(28, std::uint16_t{3}));  // fragment 3 of 3
  EXPECT_FALSE(fault(28, std::uint16_t{2}));  // the last one, but longer than what is left
  EXPECT_FALSE(fault(30, std::uint16_t{0}));  // of none
  EXPECT_FALSE(fault(30, std::uint16_t{2}));  // would be the last, and too short
  EXPECT_FALSE(fault(30, std::uint16_t{4}));  // the message ends before fragment 3
  EXPECT_FALSE(fault(32, std::uint32_t{65})); // not at a multiple
  EXPECT_FALSE(fault(32, std::uint32_t{0}));
  EXPECT_FALSE(fault(40, std::uint32_t{128})); // the third fragment would be empty
  EXPECT_FALSE(fault(40, std::uint32_t{193})); // the third would be longer than the others
  EXPECT_FALSE(fault(40, std::uint32_t{0xffffffff}));
  EXPECT_TRUE(fault(40, std::uint32_t{192}));
}

TEST(FrameHeader, EveryPairOfFragmentAndCountIsJudgedByItsOwnTiling) {
  // All (message, fragment size, count, fragment) of a small world: exactly those that make_tiling would make are accepted.
  for (std::uint32_t each : {32u, 64u}) {
    for (std::uint32_t message = 1; message <= 200; ++message) {
      const Tiling tiling = make_tiling(message, kHeaderBytes + each);
      for (int fragment = 0; fragment < tiling.count; ++fragment) {
        Header h = request_header();
        h.fragment = static_cast<std::uint16_t>(fragment);
        h.count = tiling.count;
        h.offset = static_cast<std::uint32_t>(tiling.offset(fragment));
        h.length = static_cast<std::uint32_t>(tiling.length(fragment));
        h.message_length = message;
        ASSERT_EQ(tiling_of(h), tiling);
        for (int delta : {-1, 1}) {
          Header wrong = h;
          wrong.count = static_cast<std::uint16_t>(h.count + delta);
          ASSERT_FALSE(tiling_of(wrong)) << message << " " << each << " " << fragment << " of " << wrong.count;
          wrong = h;
          wrong.length = h.length + static_cast<std::uint32_t>(delta);
          const auto other = tiling_of(wrong);
          ASSERT_TRUE(!other || *other != tiling);
        }
      }
    }
  }
}

TEST(FrameHeader, ControlFramesCarryABitmapOrNothing) {
  Header h = request_header();
  h.fragment = 0;
  h.offset = 0;
  h.count = 11;
  h.kind = Kind::RequestNack;
  h.message_length = 2;
  EXPECT_TRUE(decode_frame(seal(h, some_bytes(2))));
  h.message_length = 1;
  EXPECT_FALSE(decode_frame(seal(h, some_bytes(1))));
  h.count = 0; // everything
  h.message_length = 0;
  EXPECT_TRUE(decode_frame(seal(h, {})));
  h.kind = Kind::Busy;
  EXPECT_TRUE(decode_frame(seal(h, {})));
  h.kind = Kind::Refusal;
  EXPECT_FALSE(decode_frame(seal(h, {}))); // without saying why
  h.code = static_cast<std::uint16_t>(RefusalCode::StaleEpoch);
  EXPECT_TRUE(decode_frame(seal(h, {})));
}

TEST(FrameHeader, RandomBytesAreNeverAFrame) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto bytes = some_bytes(random() % 200, static_cast<std::uint32_t>(random()));
    EXPECT_FALSE(decode_frame(bytes));
  }
}

TEST(RoundNumbers, WrapAround) {
  EXPECT_TRUE(round_before(1, 2));
  EXPECT_FALSE(round_before(2, 2));
  EXPECT_FALSE(round_before(3, 2));
  EXPECT_TRUE(round_before(0xffffffff, 0));
  EXPECT_FALSE(round_before(0, 0xffffffff));
}

} // namespace
} // namespace ductl::wire
