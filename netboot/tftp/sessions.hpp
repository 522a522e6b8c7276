// All transfers of the TFTP server: requests and packets and the time in, packets and the next deadline out. No socket, no
// clock, one thread. The loop gives each session a socket of its own, whose port is the transfer's identity (RFC 1350
// section 4); here a session is known by its number.
//
// Bounded: kSessionsMax transfers, kSessionsPerClient of them to one address. What comes beyond is told so and comes again.
#pragma once

#include "netboot/boot_events.hpp"
#include "netboot/boot_file.hpp"
#include "netboot/tftp/transfer.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace ductl::netboot::tftp {

inline constexpr std::size_t kSessionsMax = 128, kSessionsPerClient = 4;

struct Peer {
  int port_index = 0;
  Ipv4 address = 0;
  std::uint16_t port = 0;
  auto operator<=>(const Peer&) const = default;
};

struct Counts {
  std::uint64_t requests = 0, sent = 0, probes = 0, failed = 0, refused = 0;
};

class Sessions {
public:
  using Id = std::uint64_t;
  using Namer = std::function<std::string(Ipv4)>; // who has an address, for texts
  // `files` and the event list must outlive this; events are appended. They have an address and no duck.
  Sessions(const BootFiles& files, std::vector<BootEvent>& events, Namer who);

  // A datagram to port 69. `packets` go to the peer; with `session` from a new socket that stays the session's, without one from
  // any new socket. A request that is repeated while its transfer has not begun belongs to that transfer and opens none.
  struct Opened {
    std::optional<Id> session;
    std::vector<Bytes> packets;
  };
  [[nodiscard]] Opened open(const Peer& peer, ByteView request, std::size_t block_bytes_max, Instant now);

  [[nodiscard]] std::vector<Bytes> feed(Id session, ByteView packet, Instant now);
  [[nodiscard]] std::vector<Bytes> tick(Id session, Instant now);
  void fail(Id session, const std::string& why, Instant now); // its socket is of no more use

  [[nodiscard]] bool running(Id session) const; // false once ended: its socket can go
  [[nodiscard]] std::optional<Instant> deadline() const;
  [[nodiscard]] std::vector<Id> due(Instant now) const;
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

private:
  struct Session {
    Peer peer;
    std::string name;
    std::shared_ptr<const BootFile> file;
    Transfer transfer;
    Instant begun;
    bool told = false; // FileBegun: not before data flows, a probe for the size is none
  };

  [[nodiscard]] std::optional<Refusal> no_room(const Peer& peer) const;
  void settle(Id id, Instant now);
  void add(BootEventKind kind, const Peer& peer, const std::string& name, std::string text, Instant now);

  const BootFiles& files_;
  std::vector<BootEvent>& events_;
  const Namer who_;
  std::map<Id, Session> sessions_;
  Id last_id_ = 0;
  Counts counts_;
};

} // namespace ductl::netboot::tftp
