// The DHCP server as a function: a datagram, where it came in, and the time, to datagrams and events. No socket, no clock,
// one thread. docs/boot.md has the table of answers.
//
// Only MACs of the plan are answered, each always with the same address; clients are known by chaddr and by nothing else, for
// firmware, iPXE and operating systems send different client ids (coreos#1432). There is no lease table: nothing can run out,
// and a server that restarts gives the same answers.
#pragma once

#include "netboot/boot_watch.hpp"
#include "netboot/dhcp/client.hpp"

#include <vector>

namespace ductl::netboot::dhcp {

// A datagram as it came in. `to_port` is ours: 67, 4011, or 68 for what was overheard of other servers.
struct Incoming {
  ByteView bytes;
  int port_index = 0;
  std::uint16_t to_port = kServerPort;
  Ipv4 from = 0; // host byte order; 0 as long as the client has no address
  std::uint16_t from_port = kClientPort;
};

// A datagram to send from `from_port` of the address that we have on the port.
struct Outgoing {
  Bytes bytes;
  int port_index = 0;
  std::uint16_t from_port = kServerPort;
  Ipv4 to = 0xffffffff;
  std::uint16_t to_port = kClientPort;
  std::optional<Mac> hardware; // `to` does not answer ARP yet: send to this MAC
  int duck_index = -1;
};

struct Counts {
  std::uint64_t received = 0, sent = 0;
  std::uint64_t malformed = 0; // no DHCP message, or options that run beyond it
  std::uint64_t unknown = 0;   // MACs that are not in the plan
};

class Responder {
public:
  // Plan, watch and event list must outlive this; events are appended to the list.
  Responder(const BootPlan& plan, BootWatch& watch, std::vector<BootEvent>& events);

  [[nodiscard]] std::vector<Outgoing> receive(const Incoming& in, Instant now);
  // Whose address this is: by the plan or, where that does not know, as last seen in a REQUEST.
  [[nodiscard]] std::optional<int> duck_at(Ipv4 address) const;
  [[nodiscard]] const Counts& counts() const { return counts_; }

private:
  // One message of a duck, while it is answered.
  struct Case {
    const Packet& packet;
    const Incoming& in;
    const BootPort& port;
    int duck_index;
    const BootDuck& duck;
    Client client;
    BootTarget target;
    Instant now;
  };

  void overhear(const Packet& packet, int port, Instant now);
  [[nodiscard]] std::optional<Packet> answer(const Case& c);
  [[nodiscard]] std::optional<Packet> on_discover(const Case& c);
  [[nodiscard]] std::optional<Packet> on_request(const Case& c);
  [[nodiscard]] std::optional<Packet> on_inform(const Case& c);
  [[nodiscard]] std::optional<Packet> on_proxy_request(const Case& c);
  [[nodiscard]] bool chose_another(const Case& c);
  [[nodiscard]] std::optional<Packet> refuse(const Case& c, Ipv4 asked);
  void leased(const Case& c);
  [[nodiscard]] Packet reply(const Case& c, MessageType type) const;
  [[nodiscard]] Packet lease(const Case& c, MessageType type) const;
  [[nodiscard]] Packet boot_offer(const Case& c, MessageType type, bool with_file) const;
  void add_boot(Packet& packet, const Case& c) const;
  void send(const Case& c, const Packet& packet, std::vector<Outgoing>& out);
  void add(BootEventKind kind, const Case& c, std::string text);

  const BootPlan& plan_;
  BootWatch& watch_;
  std::vector<BootEvent>& events_;
  std::vector<Ipv4> seen_addresses_;        // by duck; 0 = none
  std::vector<std::uint32_t> ignored_xids_; // by duck: told once an attempt
  Counts counts_;
};

} // namespace ductl::netboot::dhcp
