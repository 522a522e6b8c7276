// The one IPv6 message that saves thirteen seconds a boot. Pure.
//
// iPXE waits for all of its configurators; where no IPv6 router answers its Router Solicitations, that takes 13 s after the
// address is there. A Router Advertisement that offers nothing (lifetime 0, no prefix) ends the wait at once, and makes no
// host on the wire use us for anything. RFC 4861 sections 4.1, 4.2 and 6.1.1.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/bytes.hpp"

#include <array>

namespace ductl::netboot {

using Ipv6 = std::array<std::uint8_t, 16>;

inline constexpr std::uint8_t kAllNodesMac[6] = {0x33, 0x33, 0, 0, 0, 1};

// True for an IPv6 packet (without its Ethernet header) that is a valid Router Solicitation: hop limit 255, code 0, a right
// checksum, options that tile it, none of them the sender's address when that is unspecified.
[[nodiscard]] bool is_router_solicitation(ByteView packet);

// An IPv6 packet from our link-local address to all nodes (ff02::1), for the Ethernet address kAllNodesMac.
[[nodiscard]] Bytes router_advertisement(const Mac& our_mac);

[[nodiscard]] Ipv6 link_local(const Mac& mac); // fe80::/64 and the MAC as EUI-64, RFC 4291 appendix A

} // namespace ductl::netboot
