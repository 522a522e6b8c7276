// A duck's DHCP client against any server: messages with the right transaction number come at any time and in any order. It
// always has a next deadline, and what it says can be read.
#include "agent/init/dhcp_client.hpp"

#include <cstdlib>
#include <span>

using namespace ductl;
using namespace ductl::netboot;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Mac kMac{0x52, 0x54, 0, 0x21, 1, 1};
  constexpr std::size_t kXidAt = 4, kMacAt = 28;
  Instant now{std::chrono::hours(1)};
  agent::init::DhcpClient client(kMac, 0, 1, now);
  std::span<const std::uint8_t> rest(data, size);
  std::uint32_t xid = 0;
  for (int round = 0; round < 16; ++round) {
    now = std::max(now, client.deadline());
    for (const auto& message : client.poll(now)) {
      const auto packet = dhcp::parse(message.bytes);
      require(packet && packet->mac == kMac);
      xid = packet->xid;
    }
    require(client.bound() || client.deadline() > now);
    const std::size_t take = rest.empty() ? 0 : std::min<std::size_t>(rest.size() - 1, rest[0] * 4u);
    if (rest.empty()) return 0;
    Bytes bytes;
    for (const std::uint8_t b : rest.subspan(1, take)) bytes.push_back(std::byte{b});
    rest = rest.subspan(1 + take);
    if (bytes.size() > kMacAt + kMac.size()) { // what a stranger cannot guess is given to him
      for (std::size_t i = 0; i < 4; ++i) bytes[kXidAt + i] = std::byte(xid >> (24 - 8 * i));
      for (std::size_t i = 0; i < kMac.size(); ++i) bytes[kMacAt + i] = std::byte{kMac[i]};
    }
    client.receive(bytes, now);
    if (client.lease()) require(client.lease()->address != 0 && client.lease()->netmask != 0);
  }
  return 0;
}
