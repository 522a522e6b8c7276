// What the boot server is to do: which ducks, where, and how each of them boots. Plain values, filled by the caller (from the
// inventory) and never changed while a server runs.
#pragma once

#include "inventory/error.hpp"
#include "inventory/inventory.hpp"
#include "netboot/address.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ductl::netboot {

// How a duck gets from firmware to kernel. docs/boot.md has the table of what each kind of client is then told.
enum class Chain {
  Auto, // what suits the client that asks: iPXE by TFTP for PXE, the UKI by URL for UEFI HTTP boot
  Ipxe, // iPXE always, also for UEFI HTTP boot
  Uki,  // UEFI firmware loads the UKI itself, by TFTP or HTTP; a BIOS cannot and gets iPXE
  Http, // only UEFI HTTP boot: PXE is left unanswered, so that the firmware goes on to its HTTP boot entry
};

// What a plain UEFI PXE client is offered in proxy mode. Firmware differs, and neither form suits all of it.
enum class ProxyStyle {
  Bypass,  // the boot file in the OFFER, with "skip discovery" (option 43.6 = 8)
  Port4011 // no boot file in the OFFER: the client asks again on port 4011
};

enum class DhcpMode {
  Full, // this is the only DHCP server of the port
  Proxy // another server gives out addresses; ours only says what to boot
};

// One broadcast domain that is served.
struct BootPort {
  std::string name;      // "port1"
  std::string interface; // "enp1s0f0"
  Ipv4 address = 0;      // ours in it, host byte order
  int prefix_length = 24;
  DhcpMode mode = DhcpMode::Full;
};

struct BootDuck {
  std::string name; // "duck01"
  Mac mac{};        // what it is known by; nothing else of a client's identity is believed
  int port_index = 0;
  Ipv4 address = 0; // always this one; 0 = not known, which only a port in proxy mode allows
  Chain chain = Chain::Auto;
  ProxyStyle proxy_style = ProxyStyle::Bypass;
};

// Names in BootFiles of what clients are sent to.
struct BootNames {
  std::string bios_loader = "undionly.kpxe", efi_loader = "ipxe.efi", uki = "duck.efi", kernel = "vmlinuz", initrd = "initrd.zst";
};

// A boot that starts again and again. `starts` firmware starts within `window`, with no agent seen between them, are a fault.
struct LoopRule {
  int starts = 3;
  std::chrono::seconds window{600};
};

struct BootPlan {
  std::vector<BootPort> ports;
  std::vector<BootDuck> ducks;
  BootNames names;
  std::string kernel_arguments; // appended to the kernel's command line by the iPXE script, as they are
  std::uint16_t http_port = 80;
  std::chrono::seconds lease{86'400}; // the address never changes; the lease only says how soon an agent comes to renew it
  LoopRule loop_rule;
};

// The first thing in a plan that cannot be carried out: a duck on no port, two ducks of one MAC or address, an address outside
// its port, no address in full mode, a name that a script or a packet cannot hold. kInventoryValue / kInventoryDuplicate.
[[nodiscard]] Expected<void> check_plan(const BootPlan& plan);

// "http://10.21.1.1/NAME", with the port where it is not 80.
[[nodiscard]] std::string boot_url(const BootPlan& plan, int port_index, const std::string& name);
// "52-54-00-21-01-01", as BOOTIF and names of scripts have it.
[[nodiscard]] std::string hyphenated(const Mac& mac);
// The index of the duck with this MAC.
[[nodiscard]] std::optional<int> duck_of(const BootPlan& plan, const Mac& mac);

} // namespace ductl::netboot
