// Gets a card its address and keeps it: the DHCP client's sockets and loop. Also the way out for announcements, with an
// address or without. One thread.
#pragma once

#include "agent/client/announcement.hpp"
#include "agent/init/dhcp_client.hpp"
#include "agent/init/link_socket.hpp"

#include <memory>
#include <string>

namespace ductl::agent::init {

class AddressKeeper {
public:
  // The card must be up; its address is set by serve().
  [[nodiscard]] static Expected<std::unique_ptr<AddressKeeper>> open(const std::string& interface, const netboot::Mac& mac,
                                                                     netboot::Ipv4 wanted);

  // Asks and renews for `span`, or until the first lease has come. Fails when another address is given than before: what
  // listens on the old one would be deaf.
  [[nodiscard]] Expected<void> serve(Duration span);
  [[nodiscard]] const std::optional<Lease>& lease() const { return client_.lease(); }
  [[nodiscard]] Instant silent_since() const { return client_.silent_since(); }
  // To `host`, or to everybody on the link where that is 0 or there is no address. Lost datagrams are lost.
  void announce(const Announcement& announcement, netboot::Ipv4 host);

private:
  AddressKeeper(std::string interface, LinkSocket socket, DhcpClient client);
  [[nodiscard]] Expected<void> take_lease();

  const std::string interface_;
  LinkSocket socket_;
  DhcpClient client_;
  netboot::Descriptor port_; // UDP 68: else the kernel answers the server that nobody is there
  std::optional<Lease> set_; // on the interface
};

} // namespace ductl::agent::init
