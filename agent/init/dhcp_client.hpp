// A duck's DHCP client as a state machine: messages and the time in, messages and a deadline out. No socket, no clock. RFC 2131.
//
// It asks after 0.25 s, 0.5 s and so on up to every 4 s, and never gives up: its owner looks at silent_since() (a switch port
// with spanning tree lets nothing through for 50 s). A lease that runs out is kept while it asks on, since a duck whose host is
// away has nobody else to go to, and the host gives each MAC the same address for ever; only another address ends it.
#pragma once

#include "inventory/clock.hpp"
#include "netboot/dhcp/packet.hpp"

#include <optional>
#include <vector>

namespace ductl::agent::init {

struct Lease {
  netboot::Ipv4 address = 0, netmask = 0, server = 0;
  Duration lifetime{};
  bool operator==(const Lease&) const = default;
};

class DhcpClient {
public:
  // `wanted` is the address that the boot loader had (0 = not known): offers of another are taken only when it is not offered
  // again. `seed` makes transaction numbers.
  DhcpClient(const netboot::Mac& mac, netboot::Ipv4 wanted, std::uint32_t seed, Instant now);

  struct Message {
    netboot::Bytes bytes;
    netboot::Ipv4 from = 0;        // 0 = we have no address yet
    netboot::Ipv4 to = 0xffffffff; // all, or the server
  };
  // What is to be sent by now; nothing before deadline().
  [[nodiscard]] std::vector<Message> poll(Instant now);
  void receive(netboot::ByteView bytes, Instant now);
  [[nodiscard]] Instant deadline() const { return deadline_; }

  [[nodiscard]] const std::optional<Lease>& lease() const { return lease_; } // the last one given
  [[nodiscard]] bool bound() const { return state_ == State::Bound; }        // and not being asked about
  [[nodiscard]] Instant silent_since() const { return silent_since_; }       // no server has answered since

private:
  enum class State { Selecting, Requesting, Bound, Renewing, Rebinding };

  void select(Instant now);
  void request(const netboot::dhcp::Packet& offer, Instant now);
  void bind(const netboot::dhcp::Packet& ack, Instant now);
  void advance(Instant now); // by the clock: renewal, rebinding, the end of a lease
  [[nodiscard]] netboot::dhcp::Packet message(netboot::dhcp::MessageType type, Instant now) const;
  [[nodiscard]] Message write(const netboot::dhcp::Packet& packet) const;
  [[nodiscard]] Message next_message(Instant now);
  void back_off(Instant now);
  std::uint32_t new_xid();

  netboot::Mac mac_;
  netboot::Ipv4 wanted_;
  std::uint32_t random_;
  State state_ = State::Selecting;
  std::uint32_t xid_ = 0;
  Instant began_, deadline_, silent_since_;
  Duration interval_{};
  int sent_ = 0;                               // in this state
  std::optional<netboot::dhcp::Packet> offer_; // that is being asked for, or kept in case there is no better one
  std::optional<Lease> lease_;
  Instant renew_at_, rebind_at_, end_at_;
};

} // namespace ductl::agent::init
