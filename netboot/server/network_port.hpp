// The sockets of one port (broadcast domain), and what is known of its interface. I/O: nothing here decides.
//
// Each is bound to the interface, so that two ports never hear each other's clients, and sends from the address that the plan
// has for the port, whatever else the interface has. All are non-blocking. Opening them needs CAP_NET_BIND_SERVICE and
// CAP_NET_RAW; using them needs nothing.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/bytes.hpp"
#include "netboot/descriptor.hpp"
#include "netboot/dhcp/responder.hpp"

#include <optional>

namespace ductl::netboot {

struct Datagram {
  std::size_t bytes = 0; // of the buffer
  Ipv4 from = 0;
  std::uint16_t from_port = 0;
};

struct Frame {
  std::size_t bytes = 0; // of the buffer, without the Ethernet header
  Mac from{};
};

class NetworkPort {
public:
  // kAddressInUse or kBootServer, with the interface and what to do.
  [[nodiscard]] static Expected<NetworkPort> open(const BootPort& port, std::uint16_t http_port);

  [[nodiscard]] int dhcp() const { return dhcp_.get(); }            // UDP 67
  [[nodiscard]] int proxy() const { return proxy_.get(); }          // UDP 4011
  [[nodiscard]] int tftp() const { return tftp_.get(); }            // UDP 69
  [[nodiscard]] int http() const { return http_.get(); }            // a TCP listener
  [[nodiscard]] int solicitations() const { return router_.get(); } // IPv6 Router Solicitations; -1 where there is no Ethernet
  [[nodiscard]] int overheard() const { return overheard_.get(); }  // IPv4 packets to UDP 68, of any server; -1 likewise
  [[nodiscard]] std::size_t mtu() const { return mtu_; }
  [[nodiscard]] const Mac& mac() const { return mac_; }

  // A UDP socket on a port of the kernel's choice, connected to a client.
  [[nodiscard]] Expected<Descriptor> connect_to(Ipv4 address, std::uint16_t port) const;
  // False when the kernel did not take it; errno says why.
  [[nodiscard]] bool send(const dhcp::Outgoing& packet) const;
  [[nodiscard]] bool advertise_router() const;

private:
  struct Interface {
    int index = 0;
    bool ethernet = false;
  };
  Expected<void> look_up();
  Expected<void> open_link_sockets();
  [[nodiscard]] Expected<Descriptor> udp(std::uint16_t port, bool any_address) const;
  [[nodiscard]] Expected<Descriptor> listener(std::uint16_t port) const;
  [[nodiscard]] bool send_to_mac(const dhcp::Outgoing& packet) const;

  BootPort port_;
  Interface interface_;
  Mac mac_{};
  std::size_t mtu_ = 1500;
  Descriptor dhcp_, proxy_, tftp_, http_, router_, overheard_;
};

// One datagram or frame into `buffer`; nothing when none waits.
[[nodiscard]] std::optional<Datagram> receive_datagram(int socket, std::span<std::byte> buffer);
[[nodiscard]] std::optional<Frame> receive_frame(int socket, std::span<std::byte> buffer);

} // namespace ductl::netboot
