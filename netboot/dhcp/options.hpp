// Numbers of DHCP that are used here. RFC 2132, 3004 (77), 4578 (93, 94, 97); 175 is iPXE's own.
#pragma once

#include <cstdint>

namespace ductl::netboot::dhcp {

enum class MessageType : std::uint8_t {
  None = 0,
  Discover = 1,
  Offer = 2,
  Request = 3,
  Decline = 4,
  Ack = 5,
  Nak = 6,
  Release = 7,
  Inform = 8,
};

namespace option {
inline constexpr std::uint8_t kPad = 0, kSubnetMask = 1, kHostName = 12, kVendorSpecific = 43, kRequestedAddress = 50,
                              kLeaseTime = 51, kOverload = 52, kMessageType = 53, kServerId = 54, kMessage = 56,
                              kMessageSizeMax = 57, kRenewalTime = 58, kRebindingTime = 59, kParameterList = 55,
                              kVendorClass = 60, kClientId = 61, kBootFile = 67, kUserClass = 77, kClientArch = 93,
                              kClientUuid = 97, kIpxe = 175, kEnd = 255;
} // namespace option

inline constexpr std::uint16_t kServerPort = 67, kClientPort = 68, kProxyPort = 4011;
inline constexpr std::uint16_t kBroadcastFlag = 0x8000;

} // namespace ductl::netboot::dhcp
