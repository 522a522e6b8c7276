#include "agent/wire/bytes.hpp"
#include "agent/wire/reply.hpp"
#include "agent/wire/request.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace ductl::wire {
namespace {

struct Written {
  RequestShape shape;
  std::vector<std::vector<Choice>> choices;
  std::vector<std::vector<float>> x;
  std::vector<std::byte> bytes;
};

Written write_request(int tokens, int hidden, bool bf16, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Written w;
  w.shape = {.tokens = tokens, .hidden = hidden, .choices = 0, .bf16 = bf16};
  for (int t = 0; t < tokens; ++t) {
    w.choices.emplace_back(random() % 9);
    for (Choice& c : w.choices.back()) c = {.expert = static_cast<int>(random() % 300), .weight = normal(random)};
    w.shape.choices += static_cast<int>(w.choices.back().size());
    w.x.emplace_back(hidden);
    for (float& v : w.x.back()) v = normal(random);
  }
  w.bytes.resize(request_bytes(w.shape));
  RequestWriter writer(w.bytes, w.shape);
  for (int t = 0; t < tokens; ++t) {
    writer.token(w.x[t], static_cast<int>(w.choices[t].size()));
    for (const Choice& c : w.choices[t]) writer.choice(c.expert, c.weight);
  }
  return w;
}

TEST(Request, ComesBackAsItWasWritten) {
  for (const bool bf16 : {false, true}) {
    for (const int tokens : {1, 2, 3, 7, 64}) {
      const Written w = write_request(tokens, 96, bf16, static_cast<std::uint32_t>(tokens));
      const auto view = RequestView::parse(w.bytes);
      ASSERT_TRUE(view);
      ASSERT_EQ(view->shape().tokens, tokens);
      ASSERT_EQ(view->shape().bf16, bf16);
      int index = 0;
      for (int t = 0; t < tokens; ++t) {
        ASSERT_EQ(view->choices_of(t), static_cast<int>(w.choices[t].size()));
        for (const Choice& c : w.choices[t]) {
          EXPECT_EQ(view->choice(index).expert, c.expert);
          EXPECT_EQ(view->choice(index++).weight, c.weight);
        }
        std::vector<float> x(96);
        view->hidden_state(t, x);
        for (int i = 0; i < 96; ++i) EXPECT_EQ(x[i], bf16 ? from_bf16(to_bf16(w.x[t][i])) : w.x[t][i]);
      }
    }
  }
}

TEST(Request, HiddenStatesStartAtMultiplesOf32) {
  for (int tokens = 1; tokens <= 64; ++tokens) {
    for (int choices : {0, 1, 5, tokens * 9}) {
      const std::size_t bytes = request_bytes({.tokens = tokens, .hidden = 32, .choices = choices, .bf16 = false});
      EXPECT_EQ((bytes - 128u * static_cast<std::size_t>(tokens)) % 32, 0u);
    }
  }
}

TEST(Request, EveryTruncationAndEveryLieAboutLengthsIsRefused) {
  const Written w = write_request(3, 32, false, 5);
  ASSERT_TRUE(RequestView::parse(w.bytes));
  for (std::size_t length = 0; length < w.bytes.size(); ++length)
    EXPECT_FALSE(RequestView::parse(std::span(w.bytes).first(length)));
  auto longer = w.bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(RequestView::parse(longer));
  const auto refused = [&](std::size_t offset, auto value) {
    auto bytes = w.bytes;
    store(std::span(bytes), offset, value);
    return !RequestView::parse(bytes).has_value();
  };
  EXPECT_TRUE(refused(0, std::uint16_t{0}));
  EXPECT_TRUE(refused(0, std::uint16_t{4}));
  EXPECT_TRUE(refused(0, std::uint16_t{65535}));
  EXPECT_TRUE(refused(2, std::uint8_t{1})); // bf16 would be shorter
  EXPECT_TRUE(refused(2, std::uint8_t{2}));
  EXPECT_TRUE(refused(4, std::uint32_t{0}));
  EXPECT_TRUE(refused(4, std::uint32_t{64}));
  EXPECT_TRUE(refused(4, std::uint32_t{0xffffffff}));
  EXPECT_TRUE(refused(8, std::uint32_t{0xffffffff}));
  EXPECT_TRUE(refused(16, static_cast<std::uint16_t>(w.choices[0].size() + 1)));
  EXPECT_TRUE(refused(16, std::uint16_t{65535}));
}

TEST(Request, NeverLongerThanTheRoomKeptForIt) {
  for (int tokens = 1; tokens <= kTokensMax; ++tokens) {
    EXPECT_LE(request_bytes({.tokens = tokens, .hidden = 64, .choices = tokens * kChoicesMax, .bf16 = true}),
              request_bytes_max(kTokensMax, 64, true));
  }
}

TEST(Bf16, EveryCodeSurvives) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float value = from_bf16(static_cast<std::uint16_t>(code));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(value))));
    } else {
      ASSERT_EQ(to_bf16(value), code);
    }
  }
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  const auto from_bits = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(to_bf16(from_bits(0x3f807fff)), 0x3f80);
  EXPECT_EQ(to_bf16(from_bits(0x3f808000)), 0x3f80); // tie, down to even
  EXPECT_EQ(to_bf16(from_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(to_bf16(from_bits(0x3f818000)), 0x3f82);             // tie, up to even
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80); // beyond the largest: infinity
  EXPECT_EQ(to_bf16(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(from_bits(0x7f800001))))); // a NaN whose upper half alone is an infinity
}

TEST(Reply, SumsAndGuardsLieInTheMessage) {
  ReplyBuffer reply(8, 64);
  reply.clear(3);
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 64; ++i) reply.sums(t)[i] = t * 1000 - i;
    reply.complete(t, 100u + static_cast<unsigned>(t));
  }
  reply.finish(12345, 7);
  const auto message = reply.message();
  ASSERT_EQ(message.size(), reply_bytes(3, 64));
  const auto head = parse_reply_head(message, message.size());
  ASSERT_TRUE(head);
  EXPECT_EQ(head->tokens, 3);
  EXPECT_EQ(head->hidden, 64);
  EXPECT_EQ(head->compute_ns, 12345u);
  EXPECT_EQ(head->slices, 7u);
  EXPECT_FALSE(head->empty);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(load<std::uint64_t>(message, kReplyHeadBytes + 8u * t), 100u + t);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(load<std::int32_t>(message, reply_sums_offset(3) + 4u * (64 * t + i)), t * 1000 - i);
  }
}

TEST(Reply, ACompactOneHoldsBlocksOf128) {
  constexpr int kHidden = 160; // a whole block and a short one
  ReplyBuffer reply(4, kHidden, true);
  for (const int tokens : {3, 1}) { // the second leaves nothing of the first behind
    reply.clear(tokens);
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < kHidden; ++i) reply.sums(t)[i] = i < 128 ? 40000 - 8 * i : -i - t;
      reply.complete(t, 1u << 20);
    }
    reply.finish(5, 2);
    const auto message = reply.message();
    ASSERT_EQ(message.size(), reply_bytes(tokens, kHidden, true));
    EXPECT_LT(message.size(), reply_bytes(tokens, kHidden) * 6 / 10);
    const auto head = parse_reply_head(message, message.size());
    ASSERT_TRUE(head);
    EXPECT_TRUE(head->compact);
    EXPECT_FALSE(head->empty);
    const std::size_t shifts = reply_sums_offset(tokens), numbers = reply_numbers_offset(tokens, kHidden);
    for (int t = 0; t < tokens; ++t) {
      EXPECT_EQ(load<std::uint64_t>(message, kReplyHeadBytes + 8u * t), (1u << 20) + (1u << 5) + 1)
          << "wider by what rounding may add";
      EXPECT_EQ(std::to_integer<int>(message[shifts + 2u * t]), 1);
      EXPECT_EQ(std::to_integer<int>(message[shifts + 2u * t + 1]), 0);
      for (int i = 0; i < kHidden; ++i)
        EXPECT_EQ(load<std::int16_t>(message, numbers + 2u * (kHidden * t + i)), i < 128 ? 20000 - 4 * i : -i - t);
    }
    for (std::size_t at = shifts + 2u * tokens; at < numbers; ++at) EXPECT_EQ(message[at], std::byte{0});
    EXPECT_FALSE(parse_reply_head(message, reply_bytes(tokens, kHidden))) << "an exact one's size";
  }
  reply.clear(2);
  reply.finish(1, 0);
  ASSERT_EQ(reply.message().size(), kReplyHeadBytes);
  EXPECT_TRUE(parse_reply_head(reply.message(), kReplyHeadBytes)->empty);
}

TEST(Reply, WithoutSlicesIsItsHeadAlone) {
  ReplyBuffer reply(8, 64);
  reply.clear(5);
  reply.finish(1, 0);
  ASSERT_EQ(reply.message().size(), kReplyHeadBytes);
  const auto head = parse_reply_head(reply.message(), kReplyHeadBytes);
  ASSERT_TRUE(head);
  EXPECT_TRUE(head->empty);
  EXPECT_FALSE(parse_reply_head(reply.message(), reply_bytes(5, 64))); // empty, and yet long
}

TEST(Reply, ClearingForgetsTheRoundBefore) {
  ReplyBuffer reply(4, 32);
  reply.clear(4);
  for (int t = 0; t < 4; ++t) std::fill_n(reply.sums(t), 32, 9);
  reply.clear(2);
  for (int t = 0; t < 2; ++t) {
    for (int i = 0; i < 32; ++i) EXPECT_EQ(reply.sums(t)[i], 0);
  }
}

TEST(Guards, NotFiniteStaysNotFiniteHoweverOftenItIsAdded) {
  std::uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total = add_guards(total, kGuardMax);
  EXPECT_EQ(total, kGuardMax);
  EXPECT_EQ(add_guards(kGuardMax, 1), kGuardMax);
  EXPECT_EQ(add_guards(~0ull, ~0ull), kGuardMax);
  EXPECT_EQ(add_guards(3, 4), 7u);
}

} // namespace
} // namespace ductl::wire
