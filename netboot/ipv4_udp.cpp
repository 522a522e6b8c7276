#include "netboot/ipv4_udp.hpp"

#include <cassert>

namespace ductl::netboot {
namespace {

constexpr std::size_t kIpBytes = 20, kUdpBytes = 8, kIpChecksumAt = 10, kUdpChecksumAt = 6, kAddressesAt = 12,
                      kPayloadMax = 65507;
constexpr std::uint8_t kUdp = 17, kHops = 64;
constexpr std::uint16_t kFragmentMask = 0x3fff; // more to come, or an offset

} // namespace

Bytes ipv4_udp_packet(const UdpEnds& ends, ByteView payload) {
  assert(payload.size() <= kPayloadMax);
  const auto udp_bytes = static_cast<std::uint32_t>(kUdpBytes + payload.size());
  Writer ip;
  ip.u8(0x45).u8(0).u16(static_cast<std::uint32_t>(kIpBytes + udp_bytes)).u16(0).u16(0).u8(kHops).u8(kUdp).u16(0);
  ip.u32(ends.from).u32(ends.to);
  ip.patch_u16(kIpChecksumAt, internet_checksum({ip.bytes()}));
  Writer udp;
  udp.u16(ends.from_port).u16(ends.to_port).u16(udp_bytes).u16(0).raw(payload);
  const Bytes pseudo = Writer().raw(ByteView(ip.bytes()).subspan(kAddressesAt)).u16(kUdp).u16(udp_bytes).take();
  const std::uint16_t sum = internet_checksum({pseudo, udp.bytes()});
  udp.patch_u16(kUdpChecksumAt, sum == 0 ? std::uint16_t{0xffff} : sum); // 0 would say that there is none
  return ip.raw(ByteView(udp.bytes())).take();
}

std::optional<UdpDatagram> read_ipv4_udp(ByteView packet) {
  Reader in(packet);
  const std::uint8_t version = in.u8();
  const std::size_t header_bytes = (version & 0xfu) * 4;
  (void)in.u8();
  const std::size_t total = in.u16();
  (void)in.u16();
  const std::uint16_t fragment = in.u16();
  (void)in.u8();
  const std::uint8_t protocol = in.u8();
  (void)in.u16();
  UdpDatagram out;
  out.ends.from = in.u32();
  out.ends.to = in.u32();
  if (in.failed() || version >> 4 != 4 || header_bytes < kIpBytes || protocol != kUdp) return std::nullopt;
  if ((fragment & kFragmentMask) != 0 || total > packet.size() || total < header_bytes + kUdpBytes) return std::nullopt;
  Reader udp(packet.first(total).subspan(header_bytes));
  out.ends.from_port = udp.u16();
  out.ends.to_port = udp.u16();
  const std::size_t udp_bytes = udp.u16();
  (void)udp.u16();
  if (udp_bytes < kUdpBytes || udp_bytes - kUdpBytes > udp.rest().size()) return std::nullopt;
  out.payload = udp.rest().first(udp_bytes - kUdpBytes);
  return out;
}

} // namespace ductl::netboot
