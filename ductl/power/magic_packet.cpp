#include "ductl/power/magic_packet.hpp"

#include <algorithm>

namespace ductl::power {
namespace {

constexpr std::size_t kCopies = 16, kHeadBytes = 14; // of Ethernet
constexpr std::uint8_t kOnes = 0xff;

} // namespace

std::vector<std::uint8_t> magic_pattern(const inventory::Mac& mac) {
  std::vector<std::uint8_t> bytes(mac.size() * (1 + kCopies), kOnes);
  for (std::size_t copy = 1; copy <= kCopies; ++copy)
    std::copy(mac.begin(), mac.end(), bytes.begin() + static_cast<std::ptrdiff_t>(copy * mac.size()));
  return bytes;
}

std::vector<std::uint8_t> magic_frame(const inventory::Mac& duck, const inventory::Mac& from) {
  const std::vector<std::uint8_t> pattern = magic_pattern(duck);
  std::vector<std::uint8_t> frame(kHeadBytes + pattern.size(), kOnes); // to everyone
  std::copy(from.begin(), from.end(), frame.begin() + 6);
  frame[12] = kWakeEtherType >> 8;
  frame[13] = kWakeEtherType & 0xff;
  std::copy(pattern.begin(), pattern.end(), frame.begin() + kHeadBytes);
  return frame;
}

inventory::Ipv4 directed_broadcast(const inventory::Port& port) {
  const inventory::Ipv4 hosts = port.prefix_length >= 32 ? 0 : ~inventory::Ipv4{0} >> port.prefix_length;
  return port.address | hosts;
}

} // namespace ductl::power
