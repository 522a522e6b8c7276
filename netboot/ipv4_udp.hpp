// UDP datagrams as whole IPv4 packets, for clients that answer no ARP yet. Pure. RFC 791, 768.
#pragma once

#include "netboot/address.hpp"
#include "netboot/bytes.hpp"

#include <optional>

namespace ductl::netboot {

struct UdpEnds {
  Ipv4 from = 0, to = 0;
  std::uint16_t from_port = 0, to_port = 0;
  bool operator==(const UdpEnds&) const = default;
};

[[nodiscard]] Bytes ipv4_udp_packet(const UdpEnds& ends, ByteView payload); // at most 65507 bytes of it

struct UdpDatagram {
  UdpEnds ends;
  ByteView payload; // of the bytes that were read
};

// Nothing for a fragment, another protocol, or lengths that contradict each other. Checksums are not looked at: on packets
// of this machine and of virtual NICs they are not filled in.
[[nodiscard]] std::optional<UdpDatagram> read_ipv4_udp(ByteView packet);

} // namespace ductl::netboot
