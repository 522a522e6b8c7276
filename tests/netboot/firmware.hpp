// DHCP messages as firmware sends them, written down byte by byte from captures (BIOS iPXE 1.0.0+, UEFI iPXE, OVMF 2022.11,
// duck-agent) and, where no ROM was at hand, from their documentation (an Intel BIOS ROM). An encoder of its own, so that
// nothing here agrees with the product by sharing its mistakes.
#pragma once

#include "netboot/boot_plan.hpp"
#include "netboot/bytes.hpp"
#include "netboot/dhcp/packet.hpp"

#include <string>
#include <vector>

namespace ductl::netboot::test {

struct RawOption {
  std::uint8_t code;
  std::string value;
};

struct RawMessage {
  std::uint8_t op = 1, hops = 0;
  std::uint32_t xid = 0x11223344;
  std::uint16_t secs = 0, flags = 0;
  Ipv4 ciaddr = 0, yiaddr = 0, siaddr = 0, giaddr = 0;
  Mac mac{};
  std::string sname, file;
  std::vector<RawOption> options;

  RawMessage& with(std::uint8_t code, std::string value); // replaces an option of this number, or adds one
  RawMessage& without(std::uint8_t code);
  [[nodiscard]] Bytes bytes() const;
};

[[nodiscard]] RawMessage bios_ipxe(const Mac& mac); // an iPXE ROM, or undionly.kpxe
[[nodiscard]] RawMessage uefi_ipxe(const Mac& mac); // ipxe.efi, or an EFI ROM
[[nodiscard]] RawMessage uefi_pxe(const Mac& mac);  // OVMF
[[nodiscard]] RawMessage uefi_http(const Mac& mac); // OVMF, PXE switched off
[[nodiscard]] RawMessage intel_rom(const Mac& mac); // a BIOS ROM that is no iPXE; without option 97
[[nodiscard]] RawMessage duck_agent(const Mac& mac);
[[nodiscard]] RawMessage disk_system(const Mac& mac); // a Linux on a disk

// The REQUEST that follows an OFFER of `address` by `server`.
[[nodiscard]] RawMessage request_of(RawMessage discover, Ipv4 address, Ipv4 server);
// OVMF's second REQUEST, to port 4011 of a proxy; `own` is the address that the other server gave it.
[[nodiscard]] RawMessage proxy_request_of(RawMessage discover, Ipv4 own);

[[nodiscard]] std::string u8(std::uint32_t value);
[[nodiscard]] std::string u16(std::uint32_t value);
[[nodiscard]] std::string u32(std::uint32_t value);

} // namespace ductl::netboot::test
