#include "agent/wire/reply.hpp"

#include "agent/wire/block_float.hpp"
#include "agent/wire/header.hpp"
#include "agent/wire/request.hpp"

#include <algorithm>
#include <cstring>

namespace ductl::wire {
namespace {
constexpr std::size_t kTokensAt = 0, kFlagsAt = 2, kHiddenAt = 4, kComputeAt = 8, kSlicesAt = 16;
constexpr std::uint16_t kFlagEmpty = 1, kFlagCompact = 2;

std::size_t shifts(int tokens, int hidden) {
  return static_cast<std::size_t>(tokens) * float_blocks(static_cast<std::size_t>(hidden));
}

} // namespace

std::size_t reply_sums_offset(int tokens) {
  return kReplyHeadBytes + round_up(8 * static_cast<std::size_t>(tokens), kPayloadAlignment);
}

std::size_t reply_numbers_offset(int tokens, int hidden) {
  return reply_sums_offset(tokens) + round_up(shifts(tokens, hidden), kPayloadAlignment);
}

std::size_t reply_bytes(int tokens, int hidden, bool compact) {
  const std::size_t count = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(hidden);
  return compact ? reply_numbers_offset(tokens, hidden) + 2 * count : reply_sums_offset(tokens) + 4 * count;
}

void write_reply_head(const ReplyHead& head, std::span<std::byte> out) {
  std::memset(out.data(), 0, kReplyHeadBytes);
  store(out, kTokensAt, static_cast<std::uint16_t>(head.tokens));
  store(out, kFlagsAt, static_cast<std::uint16_t>((head.empty ? kFlagEmpty : 0) | (head.compact ? kFlagCompact : 0)));
  store(out, kHiddenAt, static_cast<std::uint32_t>(head.hidden));
  store(out, kComputeAt, head.compute_ns);
  store(out, kSlicesAt, head.slices);
}

std::optional<ReplyHead> parse_reply_head(std::span<const std::byte> bytes, std::size_t message_bytes) {
  if (bytes.size() < kReplyHeadBytes) return std::nullopt;
  const auto flags = load<std::uint16_t>(bytes, kFlagsAt);
  const auto hidden = load<std::uint32_t>(bytes, kHiddenAt);
  ReplyHead head;
  head.tokens = load<std::uint16_t>(bytes, kTokensAt);
  if (head.tokens < 1 || head.tokens > kTokensMax || hidden == 0 || hidden > kHiddenMax ||
      (flags & ~(kFlagEmpty | kFlagCompact)) != 0)
    return std::nullopt;
  head.hidden = static_cast<int>(hidden);
  head.empty = (flags & kFlagEmpty) != 0;
  head.compact = (flags & kFlagCompact) != 0;
  head.compute_ns = load<std::uint64_t>(bytes, kComputeAt);
  head.slices = load<std::uint32_t>(bytes, kSlicesAt);
  if (message_bytes != (head.empty ? kReplyHeadBytes : reply_bytes(head.tokens, head.hidden, head.compact))) return std::nullopt;
  return head;
}

ReplyBuffer::ReplyBuffer(int tokens_max, int hidden, bool compact)
    : words_(reply_bytes(tokens_max, hidden) / sizeof(std::int32_t)),
      numbers_(compact ? reply_bytes(tokens_max, hidden, true) / sizeof(std::int16_t) : 0),
      tokens_max_(tokens_max),
      hidden_(hidden),
      compact_(compact) {}

std::span<std::byte> ReplyBuffer::bytes() {
  return compact_ ? std::as_writable_bytes(numbers_.span()) : std::as_writable_bytes(words_.span());
}

void ReplyBuffer::clear(int tokens) {
  assert(tokens >= 1 && tokens <= tokens_max_);
  tokens_ = tokens;
  message_bytes_ = 0;
  std::memset(words_.data(), 0, reply_bytes(tokens, hidden_));
  if (compact_) std::memset(numbers_.data(), 0, reply_numbers_offset(tokens, hidden_));
}

std::int32_t* ReplyBuffer::sums(int token) {
  assert(token >= 0 && token < tokens_);
  return words_.data() + reply_sums_offset(tokens_) / sizeof(std::int32_t) +
         static_cast<std::size_t>(token) * static_cast<std::size_t>(hidden_);
}

void ReplyBuffer::complete(int token, std::uint64_t guard) {
  const auto at = static_cast<std::size_t>(token);
  store(bytes(), kReplyHeadBytes + 8 * at, compact_ ? add_guards(rounded_guard(guard), 0) : guard);
  if (!compact_) return;
  const auto row = static_cast<std::size_t>(hidden_), blocks = float_blocks(row);
  const std::span<const std::int32_t> from(sums(token), row);
  const std::span<std::int16_t> to =
      numbers_.span().subspan(reply_numbers_offset(tokens_, hidden_) / sizeof(std::int16_t) + at * row, row);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * kFloatBlock, count = std::min(kFloatBlock, row - first);
    const int shift = to_block_float(from.subspan(first, count), to.subspan(first, count));
    store(bytes(), reply_sums_offset(tokens_) + at * blocks + b, static_cast<std::uint8_t>(shift));
  }
}

void ReplyBuffer::finish(std::uint64_t compute_ns, std::uint32_t slices) {
  write_reply_head({.tokens = tokens_,
                    .hidden = hidden_,
                    .empty = slices == 0,
                    .compact = compact_,
                    .compute_ns = compute_ns,
                    .slices = slices},
                   bytes());
  message_bytes_ = slices == 0 ? kReplyHeadBytes : reply_bytes(tokens_, hidden_, compact_);
}

std::span<const std::byte> ReplyBuffer::message() const {
  const auto all = compact_ ? std::as_bytes(numbers_.span()) : std::as_bytes(words_.span());
  return all.first(message_bytes_);
}

} // namespace ductl::wire
