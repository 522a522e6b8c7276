// The boot server: sockets and one thread around the functions that decide (DHCP, TFTP, boot files, router advertisements).
//
// open() binds everything and needs the right to; run() gives all rights up, then serves until stop(). A port that cannot be
// had is an Error before the first packet; a packet that cannot be sent later is an event.
#pragma once

#include "netboot/boot_events.hpp"
#include "netboot/boot_file.hpp"

#include <memory>

namespace ductl::netboot {

struct BootCounts {
  std::uint64_t dhcp_received = 0, dhcp_sent = 0, dhcp_malformed = 0, unknown_macs = 0;
  std::uint64_t tftp_requests = 0, tftp_sent = 0, tftp_probes = 0, tftp_failed = 0;
  std::uint64_t http_sent = 0, http_failed = 0, router_advertisements = 0;
};

class BootServer {
public:
  // The plan is checked; `files` must hold the scripts (add_scripts). `events` must outlive the server; it is called on the
  // thread of run() only.
  [[nodiscard]] static Expected<std::unique_ptr<BootServer>> open(BootPlan plan, BootFiles files, BootEvents& events);
  virtual ~BootServer() = default; // not while run() runs

  // Blocks. The calling thread loses its capabilities for good (privileges.hpp) and has SIGPIPE blocked from then on.
  [[nodiscard]] virtual Expected<void> run() = 0;
  // Ends run(), now or when it is called. Any thread, any number of times.
  virtual void stop() = 0;
  // A duck's agent has answered somewhere else: its boot has arrived. Any thread.
  virtual void agent_seen(int duck_index) = 0;
  [[nodiscard]] virtual BootCounts counts() const = 0; // on the thread of run(), or after it
};

} // namespace ductl::netboot
