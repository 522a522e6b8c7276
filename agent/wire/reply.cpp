#include "agent/wire/reply.hpp"

#include "agent/wire/header.hpp"
#include "agent/wire/request.hpp"

#include <cstring>

namespace ductl::wire {
namespace {
constexpr std::size_t kTokensAt = 0, kFlagsAt = 2, kHiddenAt = 4, kComputeAt = 8, kSlicesAt = 16;
constexpr std::uint16_t kFlagEmpty = 1;
} // namespace

std::size_t reply_sums_offset(int tokens) {
  return kReplyHeadBytes + round_up(8 * static_cast<std::size_t>(tokens), kPayloadAlignment);
}

std::size_t reply_bytes(int tokens, int hidden) {
  return reply_sums_offset(tokens) + 4 * static_cast<std::size_t>(tokens) * static_cast<std::size_t>(hidden);
}

void write_reply_head(const ReplyHead& head, std::span<std::byte> out) {
  std::memset(out.data(), 0, kReplyHeadBytes);
  store(out, kTokensAt, static_cast<std::uint16_t>(head.tokens));
  store(out, kFlagsAt, head.empty ? kFlagEmpty : std::uint16_t{0});
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
  if (head.tokens < 1 || head.tokens > kTokensMax || hidden == 0 || hidden > kHiddenMax || flags > kFlagEmpty)
    return std::nullopt;
  head.hidden = static_cast<int>(hidden);
  head.empty = flags == kFlagEmpty;
  head.compute_ns = load<std::uint64_t>(bytes, kComputeAt);
  head.slices = load<std::uint32_t>(bytes, kSlicesAt);
  if (message_bytes != (head.empty ? kReplyHeadBytes : reply_bytes(head.tokens, head.hidden))) return std::nullopt;
  return head;
}

ReplyBuffer::ReplyBuffer(int tokens_max, int hidden)
    : words_(reply_bytes(tokens_max, hidden) / sizeof(std::int32_t)), tokens_max_(tokens_max), hidden_(hidden) {}

std::span<std::byte> ReplyBuffer::bytes() { return std::as_writable_bytes(words_.span()); }

void ReplyBuffer::clear(int tokens) {
  assert(tokens >= 1 && tokens <= tokens_max_);
  tokens_ = tokens;
  message_bytes_ = 0;
  std::memset(words_.data(), 0, reply_bytes(tokens, hidden_));
}

std::int32_t* ReplyBuffer::sums(int token) {
  assert(token >= 0 && token < tokens_);
  return words_.data() + reply_sums_offset(tokens_) / sizeof(std::int32_t) +
         static_cast<std::size_t>(token) * static_cast<std::size_t>(hidden_);
}

void ReplyBuffer::set_guard(int token, std::uint64_t guard) {
  store(bytes(), kReplyHeadBytes + 8 * static_cast<std::size_t>(token), guard);
}

void ReplyBuffer::finish(std::uint64_t compute_ns, std::uint32_t slices) {
  write_reply_head({.tokens = tokens_, .hidden = hidden_, .empty = slices == 0, .compute_ns = compute_ns, .slices = slices},
                   bytes());
  message_bytes_ = slices == 0 ? kReplyHeadBytes : reply_bytes(tokens_, hidden_);
}

std::span<const std::byte> ReplyBuffer::message() const { return std::as_bytes(words_.span()).first(message_bytes_); }

} // namespace ductl::wire
