// DHCP's datagrams on a card that has no address yet: whole IPv4 packets over a packet socket. A filter lets only UDP to port
// 68 through. Also sends to everybody on the link when the duck has something to say and no address to say it from.
#pragma once

#include "inventory/error.hpp"
#include "netboot/descriptor.hpp"
#include "netboot/ipv4_udp.hpp"

#include <optional>
#include <string>

namespace ductl::agent::init {

class LinkSocket {
public:
  // Needs CAP_NET_RAW. `interface` must be up.
  [[nodiscard]] static Expected<LinkSocket> open(const std::string& interface);

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // Unicasts go to the card that the last message came from. False when the card did not take it.
  bool send(const netboot::UdpEnds& ends, netboot::ByteView payload);
  // The next datagram to port 68; nothing when there is none now.
  [[nodiscard]] std::optional<netboot::Bytes> receive();

private:
  netboot::Descriptor socket_;
  int index_ = 0;
  std::optional<netboot::Mac> peer_;
};

} // namespace ductl::agent::init
