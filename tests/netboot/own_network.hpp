// A network of the test's own: a fresh namespace for this process, a loopback that is up, and cables (TAP interfaces) of which
// the test holds the far end, as a duck does. Nothing of the machine's network is seen or touched.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/bytes.hpp"
#include "netboot/ipv4_udp.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace ductl::netboot::test {

// Moves this process into a new network namespace, as root or through a user namespace; once. "" or why it cannot be.
[[nodiscard]] std::string enter_own_network();

struct EthernetFrame {
  Mac to{}, from{};
  std::uint16_t type = 0;
  Bytes payload;
};

class Cable {
public:
  // An interface `name` of this machine with `address`/24, up. Throws std::runtime_error.
  Cable(const std::string& name, Ipv4 address);
  ~Cable();
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  void send(const EthernetFrame& frame);
  // A UDP datagram of the duck at the far end, to all or to the host.
  void send_udp(const Mac& from_mac, const UdpEnds& ends, ByteView payload);
  // The next frame that `wanted` is true for; others are dropped. ARP requests for `own` are answered on the way.
  using Wanted = std::function<bool(const EthernetFrame&)>;
  [[nodiscard]] std::optional<EthernetFrame> receive(const Wanted& wanted,
                                                     std::chrono::milliseconds timeout = std::chrono::seconds(5));
  struct Heard {
    EthernetFrame frame;
    UdpEnds ends;
    Bytes payload;
  };
  [[nodiscard]] std::optional<Heard> receive_udp(std::uint16_t to_port,
                                                 std::chrono::milliseconds timeout = std::chrono::seconds(5));
  void answer_arp(Ipv4 address, const Mac& mac); // from now on, while receiving
  [[nodiscard]] const Mac& host_mac() const { return host_mac_; }

private:
  void answer_arp(const EthernetFrame& request);

  int tap_ = -1;
  Mac host_mac_{};
  Ipv4 own_ = 0;
  Mac own_mac_{};
};

inline constexpr Mac kEveryone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

} // namespace ductl::netboot::test
