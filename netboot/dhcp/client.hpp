// Who asks: which program speaks in a DHCP message, and what it is to be told. Pure.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/dhcp/packet.hpp"

namespace ductl::netboot::dhcp {

enum class ClientKind {
  Ipxe,     // iPXE, as a ROM or loaded by us
  PxeBios,  // a BIOS network ROM
  PxeEfi,   // UEFI PXE, 64 bits
  PxeEfi32, // UEFI PXE, 32 bits: nothing that we have runs there
  HttpEfi,  // UEFI HTTP boot
  Agent,    // duck-agent: the boot has arrived
  Other,    // any other DHCP client: an operating system on a disk, most likely
};

struct Client {
  ClientKind kind = ClientKind::Other;
  bool efi = false; // of iPXE: it runs on UEFI, so it can start a UKI
};

// iPXE is recognised first, whatever else it says: who gives iPXE to iPXE has a boot loop (ipxe#908, xcat-core#7645).
[[nodiscard]] Client identify(const Packet& packet);
[[nodiscard]] const char* to_string(ClientKind kind); // "UEFI PXE"

// What a client is sent to.
struct BootTarget {
  enum class Form {
    None,    // nothing: `reason` says why
    Address, // no boot file: an address only
    Tftp,    // `name` by TFTP
    Url,     // `name` by HTTP
  };
  Form form = Form::None;
  std::string name;   // in BootFiles
  std::string reason; // None: for a person
};

[[nodiscard]] BootTarget choose_target(const BootNames& names, const BootDuck& duck, const Client& client);

} // namespace ductl::netboot::dhcp
