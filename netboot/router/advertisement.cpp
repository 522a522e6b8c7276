#include "netboot/router/advertisement.hpp"

#include <algorithm>

namespace ductl::netboot {
namespace {

constexpr std::size_t kSolicitationBytesMin = 8;
constexpr std::uint8_t kIcmpv6 = 58, kHopLimit = 255;
constexpr std::uint8_t kSolicitation = 133, kAdvertisement = 134;
constexpr std::uint8_t kSourceLinkAddress = 1;
constexpr std::size_t kSourceAt = 8, kAddressBytes = 16, kChecksumAt = 2;
constexpr Ipv6 kAllNodes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

// RFC 8200 section 8.1: both addresses, the length, and the next header stand in front of what is summed.
std::uint16_t icmpv6_checksum(ByteView addresses, ByteView message) {
  const Bytes rest = Writer().u32(static_cast<std::uint32_t>(message.size())).u32(kIcmpv6).take();
  return internet_checksum({addresses, rest, message});
}

bool options_are_sound(ByteView options, bool unspecified_source) {
  for (Reader in(options); !in.rest().empty();) {
    const std::uint8_t type = in.u8();
    const std::size_t units = in.u8(); // of 8 bytes, with type and length
    if (in.failed() || units == 0) return false;
    (void)in.take(units * 8 - 2);
    if (in.failed() || (type == kSourceLinkAddress && unspecified_source)) return false;
  }
  return true;
}

} // namespace

bool is_router_solicitation(ByteView packet) {
  Reader in(packet);
  const std::uint32_t version = in.u32() >> 28;
  const std::size_t length = in.u16();
  const std::uint8_t next = in.u8(), hops = in.u8();
  const ByteView addresses = in.take(2 * kAddressBytes);
  if (in.failed() || version != 6 || next != kIcmpv6 || hops != kHopLimit) return false;
  if (length < kSolicitationBytesMin || length > in.rest().size()) return false;
  const ByteView message = in.rest().first(length); // Ethernet may have padded the rest
  if (std::to_integer<std::uint8_t>(message[0]) != kSolicitation || message[1] != std::byte{0}) return false;
  if (icmpv6_checksum(addresses, message) != 0) return false;
  const ByteView source = addresses.first(kAddressBytes);
  const bool unspecified = std::all_of(source.begin(), source.end(), [](std::byte b) { return b == std::byte{0}; });
  return options_are_sound(message.subspan(kSolicitationBytesMin), unspecified);
}

Bytes router_advertisement(const Mac& our_mac) {
  Writer message;
  message.u8(kAdvertisement).u8(0).u16(0);   // checksum follows
  message.u8(64).u8(0).u16(0).u32(0).u32(0); // hop limit, no flags, router lifetime 0, reachable and retransmission times unsaid
  message.u8(kSourceLinkAddress).u8(1).raw(our_mac);
  Writer packet;
  packet.u32(6u << 28).u16(static_cast<std::uint32_t>(message.size())).u8(kIcmpv6).u8(kHopLimit);
  packet.raw(link_local(our_mac)).raw(kAllNodes);
  const ByteView addresses = ByteView(packet.bytes()).subspan(kSourceAt, 2 * kAddressBytes);
  message.patch_u16(kChecksumAt, icmpv6_checksum(addresses, message.bytes()));
  return packet.raw(ByteView(message.bytes())).take();
}

Ipv6 link_local(const Mac& mac) {
  return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
          mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

} // namespace ductl::netboot
