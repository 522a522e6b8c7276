// A DHCP message as bytes and as values. RFC 2131, 2132, 3396. Pure.
//
// parse() believes nothing: what is not a whole BOOTP message over Ethernet with a cookie and well-formed options is refused.
// It is lenient where firmware is known to be sloppy and nothing can go wrong: an end option that is missing where the
// message ends, padding of any length, a fixed field without its zero.
#pragma once

#include "netboot/address.hpp"
#include "netboot/bytes.hpp"
#include "netboot/dhcp/options.hpp"

#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>

namespace ductl::netboot::dhcp {

inline constexpr std::size_t kFixedBytes = 236;          // before the cookie
inline constexpr std::size_t kMessageBytesMin = 300;     // BOOTP's; some relays and ROMs drop shorter ones
inline constexpr std::size_t kMessageBytesDefault = 548; // what every client takes: 576 bytes of IP datagram, RFC 2131 section 2

enum class Op : std::uint8_t { Request = 1, Reply = 2 };
enum class Fault { Short, NotEthernet, NoCookie, BadOption };

struct Packet {
  Op op = Op::Request;
  std::uint8_t hops = 0;
  std::uint32_t xid = 0;
  std::uint16_t secs = 0, flags = 0;
  Ipv4 ciaddr = 0, yiaddr = 0, siaddr = 0, giaddr = 0; // host byte order
  Mac mac{};
  std::string sname, file; // "" where option 52 gave the field to options
  // Each option once: pieces of one number are joined (RFC 3396). Values are raw bytes.
  std::map<std::uint8_t, std::string> options;

  [[nodiscard]] const std::string* find(std::uint8_t code) const;
  [[nodiscard]] MessageType type() const; // None when absent or of a wrong length
  [[nodiscard]] std::optional<std::uint32_t> number(std::uint8_t code, std::size_t bytes) const; // nothing unless of this length
  [[nodiscard]] std::optional<Ipv4> address(std::uint8_t code) const;
  [[nodiscard]] bool wants_broadcast() const { return (flags & kBroadcastFlag) != 0; }
};

[[nodiscard]] tl::expected<Packet, Fault> parse(ByteView bytes);

// The longest message that the sender of `packet` takes: option 57, which counts the IP and UDP headers in firmware that is
// strict about it, so they are taken off; never less than kMessageBytesDefault.
[[nodiscard]] std::size_t message_bytes_max(const Packet& packet);

// Message type first and padded to kMessageBytesMin. Nothing when it would be longer than `bytes_max`.
[[nodiscard]] std::optional<Bytes> build(const Packet& packet, std::size_t bytes_max);

// The value of an option that holds a number.
[[nodiscard]] std::string option_u8(std::uint32_t value);
[[nodiscard]] std::string option_u32(std::uint32_t value);

} // namespace ductl::netboot::dhcp
