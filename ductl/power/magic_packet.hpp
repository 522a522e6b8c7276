// The magic packet of wake-on-LAN, as bytes: six times 0xff, then the MAC address sixteen times. Pure.
//
// No SecureOn password behind it: an empty one keeps some cards asleep. Cards look for the pattern anywhere in a frame; which
// frames they look into differs, so a duck is sent it in both forms.
#pragma once

#include "inventory/inventory.hpp"

#include <cstdint>
#include <vector>

namespace ductl::power {

inline constexpr std::uint16_t kWakeEtherType = 0x0842;
inline constexpr std::uint16_t kWakeUdpPort = 9; // "discard": nothing answers there

// What follows the head of either form; 102 bytes.
[[nodiscard]] std::vector<std::uint8_t> magic_pattern(const inventory::Mac& mac);
// The whole Ethernet frame, to everyone: a switch that has forgotten a sleeping duck's port would have to flood it anyway.
[[nodiscard]] std::vector<std::uint8_t> magic_frame(const inventory::Mac& duck, const inventory::Mac& from);
// 10.21.1.255 for 10.21.1.1/24: where the UDP form goes.
[[nodiscard]] inventory::Ipv4 directed_broadcast(const inventory::Port& port);

} // namespace ductl::power
