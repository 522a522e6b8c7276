// The message duck -> host: this duck's partial sums. docs/wire.md.
//
//   u16 tokens | u16 flags | u32 hidden | u64 compute_ns | u32 slices | u32 0 | u64 0
//   u64 guard [tokens], padded to 32
//   exact:    i32 sum [tokens][hidden]
//   compact:  u8 shift [tokens][blocks], padded to 32 | i16 number [tokens][hidden]     (block_float.hpp)
// A duck without work in a round sends the first 32 bytes only, with the flag `empty`: all of its sums are zero.
#pragma once

#include "agent/wire/bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ductl::wire {

inline constexpr std::size_t kReplyHeadBytes = 32;
inline constexpr std::uint64_t kGuardLimit = std::uint64_t{1} << 31; // a token's total from here on may have wrapped
inline constexpr std::uint64_t kGuardMax = std::uint64_t{1} << 62;   // not finite; sums stop here instead of wrapping

struct ReplyHead {
  int tokens = 0, hidden = 0;
  bool empty = false, compact = false;
  std::uint64_t compute_ns = 0; // what this duck spent on the round's slices
  std::uint32_t slices = 0;     // that it applied
};

[[nodiscard]] std::size_t reply_sums_offset(int tokens);                             // or of the shifts
[[nodiscard]] std::size_t reply_numbers_offset(int tokens, int hidden);              // of a compact reply's int16
[[nodiscard]] std::size_t reply_bytes(int tokens, int hidden, bool compact = false); // of a reply that is not empty
void write_reply_head(const ReplyHead& head, std::span<std::byte> out);
// Nothing when the numbers are out of range or do not agree with the message's length.
[[nodiscard]] std::optional<ReplyHead> parse_reply_head(std::span<const std::byte> head, std::size_t message_bytes);

// Sums of guards, in any order, end at the same value: kGuardMax absorbs.
[[nodiscard]] constexpr std::uint64_t add_guards(std::uint64_t a, std::uint64_t b) {
  return a >= kGuardMax || b >= kGuardMax || a + b >= kGuardMax ? kGuardMax : a + b;
}

// A reply under construction; kernels add into sums() directly. In the exact form those are the message itself. Allocates in its
// constructor only.
class ReplyBuffer {
public:
  ReplyBuffer() = default;
  ReplyBuffer(int tokens_max, int hidden, bool compact = false);
  void clear(int tokens); // zero guards and sums for so many tokens
  [[nodiscard]] std::int32_t* sums(int token);
  // The token's sums are complete, and bounded by its guard. A compact reply takes them over now, while they are in the cache.
  void complete(int token, std::uint64_t guard);
  void finish(std::uint64_t compute_ns, std::uint32_t slices); // writes the head; no slices = empty
  [[nodiscard]] std::span<const std::byte> message() const;    // after finish()
  [[nodiscard]] int tokens_max() const { return tokens_max_; }
  [[nodiscard]] int hidden() const { return hidden_; }
  [[nodiscard]] bool compact() const { return compact_; }

private:
  [[nodiscard]] std::span<std::byte> bytes(); // of the message
  AlignedArray<std::int32_t> words_;   // int32, because most of it is: the exact message, and the kernels' target in either form
  AlignedArray<std::int16_t> numbers_; // likewise the compact message
  int tokens_max_ = 0, hidden_ = 0, tokens_ = 0;
  bool compact_ = false;
  std::size_t message_bytes_ = 0;
};

} // namespace ductl::wire
