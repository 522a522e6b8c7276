// The 54 bytes in front of every frame of the data plane, and the first checks on a frame. docs/wire.md.
//
// 54 because 42 bytes of Ethernet, IPv4 and UDP stand before it: the payload then starts at a multiple of 32.
// decode_frame() believes nothing before the CRC32C over header and payload fits. What it lets through is well formed by
// itself (lengths, tiling, ranges); whether it belongs to this session and round is for the rounds to decide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

namespace ductl::wire {

inline constexpr std::uint32_t kMagic = 0x4b435544; // "DUCK" as bytes
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 54;
inline constexpr std::size_t kPayloadAlignment = 32;
static_assert((14 + 20 + 8 + kHeaderBytes) % kPayloadAlignment == 0, "payload alignment behind Ethernet, IPv4 and UDP");

inline constexpr std::uint16_t kAllDucks = 0xffff; // requests look the same for every duck
inline constexpr int kLanesMax = 4;
inline constexpr int kRungsMax = 3; // fixed-point rungs 0, 1, 2
inline constexpr int kFragmentsMax = 8192;
inline constexpr std::uint32_t kMessageBytesMax = 64u << 20;

enum class Kind : std::uint8_t {
  Request = 1,     // host -> ducks: a fragment of hidden states and their experts
  Reply = 2,       // duck -> host: a fragment of partial sums
  RequestNack = 3, // duck -> host: these fragments of the request are missing
  ReplyNack = 4,   // host -> duck: these fragments of your reply are missing; also the host's probe
  Busy = 5,        // duck -> host: I have your request and am not done
  Refusal = 6,     // duck -> host: I shall not answer this round, because ...
};

enum class RefusalCode : std::uint16_t {
  StaleEpoch = 1,   // the frame's epoch is not the session's, or not that of the slices in use
  UnknownLayer = 2, // this duck knows no such layer
  Malformed = 3,    // the request's bytes contradict themselves
  WrongHidden = 4,  // another hidden size or type than the session's
  TooLarge = 5,     // more than the session's buffers hold
};

struct Header {
  Kind kind = Kind::Request;
  std::uint8_t lane = 0;
  std::uint8_t rung = 0;
  std::uint64_t session_tag = 0;
  std::uint32_t epoch = 0;
  std::uint32_t round = 0;
  std::uint16_t layer = 0;
  std::uint16_t duck = 0;           // who sends it, or to whom; kAllDucks in requests
  std::uint16_t fragment = 0;       // this one, of ...
  std::uint16_t count = 0;          // ... so many; in a NACK: of the message it speaks of, 0 = not known, all of it
  std::uint32_t offset = 0;         // of the payload in the message
  std::uint32_t length = 0;         // of the payload
  std::uint32_t message_length = 0; // of all fragments together
  std::uint16_t code = 0;           // RefusalCode, else 0
  bool operator==(const Header&) const = default;
};

struct Frame {
  Header header;
  std::span<const std::byte> payload;
};

enum class Fault { Short, Corrupt, Magic, Version, Malformed };

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

// Header bytes for this payload, checksum included. header.length must be the payload's.
void encode_header(const Header& header, std::span<const std::byte> payload, std::span<std::byte, kHeaderBytes> out);
[[nodiscard]] tl::expected<Frame, Fault> decode_frame(std::span<const std::byte> bytes);

// Rounds are numbered with 32 bits and wrap (RFC 1982).
[[nodiscard]] constexpr bool round_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

} // namespace ductl::wire
