// What the boot server tells its owner. It never prints and never decides what an event means for a duck: the owner turns
// events into a log, a progress line, or a diagnosis.
#pragma once

#include "inventory/clock.hpp"
#include "netboot/boot_plan.hpp"

#include <string>

namespace ductl::netboot {

enum class BootEventKind {
  // A duck on its way, in this order.
  Asked,      // first DISCOVER of a boot: the duck is awake and its firmware looks for us
  Leased,     // ACK sent: it has its address
  FileBegun,  // it fetches `file`
  FileSent,   // all of `file` was sent (HTTP) or acknowledged (TFTP)
  AgentAsked, // the agent asks for its address: kernel and image run
  // What deserves a look.
  FileFailed,    // a transfer ended early, or the file is not served
  Refused,       // NAK: it asked for an address that is not its own
  Ignored,       // a duck of ours that cannot be served: 32-bit UEFI, PXE under chain "http", ...
  OtherSystem,   // a duck of ours has its address and runs something else: it booted from a disk
  WrongPort,     // a duck of ours in another broadcast domain than the inventory says
  UnknownMac,    // somebody who is not in the inventory asks to boot
  ForeignServer, // another DHCP server answers in our broadcast domain
  NoRequest,     // many DISCOVERs answered, and never a REQUEST
  BootLoop,      // it starts again and again without reaching the agent
  Conflict,      // it found its address in use
  Trouble,       // something of ours failed: a packet that could not be sent, a limit reached
};

struct BootEvent {
  BootEventKind kind = BootEventKind::Trouble;
  Instant when{};
  int port_index = -1; // where it was seen; -1 = not known
  int duck_index = -1; // -1 = none of ours
  Mac mac{};           // of the client; zero = not known
  Ipv4 address = 0;    // of the client; 0 = not known, or none yet
  std::string file;    // FileBegun, FileSent, FileFailed
  std::string text;    // one line for a person, complete by itself: "duck01 starts to boot on port1 (UEFI PXE)"
};

class BootEvents {
public:
  virtual ~BootEvents() = default;
  // On the server's thread; must not block.
  virtual void on_event(const BootEvent& event) = 0;
};

} // namespace ductl::netboot
