// TFTP messages as bytes and as values. RFC 1350, 2347, 2348, 2349, 7440. Pure.
#pragma once

#include "netboot/bytes.hpp"

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace ductl::netboot::tftp {

enum class Opcode : std::uint16_t { Read = 1, Write = 2, Data = 3, Ack = 4, Error = 5, OptionAck = 6 };
enum class ErrorNumber : std::uint16_t {
  NotDefined = 0,
  NotFound = 1,
  AccessViolation = 2,
  IllegalOperation = 4,
  UnknownTransfer = 5,
  OptionRefused = 8, // RFC 2347; EDK2 sends it when it has read the size it asked for
};

inline constexpr std::size_t kBlockBytesDefault = 512, kBlockBytesMin = 8, kBlockBytesMax = 65464;
inline constexpr std::size_t kRequestBytesMax = 512; // RFC 2347

// Options that a client asked for, as it wrote them: checked for their syntax and ranges, not yet for what we grant.
struct Asked {
  std::optional<std::uint32_t> block_bytes, window_blocks, timeout_s;
  bool size = false;
};

struct ReadRequest {
  std::string name; // without leading "/" and "./", without the 0xff that some ROMs leave behind it
  Asked asked;
};

struct Refusal { // an ERROR to send
  ErrorNumber number = ErrorNumber::NotDefined;
  std::string text;
};

// A first datagram. Nothing at all (an empty Refusal text) is to be answered where it is no request.
[[nodiscard]] tl::expected<ReadRequest, Refusal> parse_request(ByteView bytes);

// What a client says during a transfer.
struct Answer {
  enum class Kind { Ack, Error } kind = Kind::Ack;
  std::uint16_t number = 0; // of the block, or of the error
  std::string text;         // of the error; printable ASCII, at most 80 characters
};
[[nodiscard]] std::optional<Answer> parse_answer(ByteView bytes);

[[nodiscard]] Bytes data_packet(std::uint16_t block, ByteView data);
[[nodiscard]] Bytes error_packet(ErrorNumber number, std::string_view text);
[[nodiscard]] Bytes option_ack_packet(const std::vector<std::pair<std::string, std::uint64_t>>& options);

} // namespace ductl::netboot::tftp
