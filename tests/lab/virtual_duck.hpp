// A duck that QEMU emulates: what it is, what is wrong with it, and its command line. Pure.
#pragma once

#include "inventory/inventory.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::lab {

enum class Firmware {
  Bios,    // SeaBIOS, with iPXE as its network card's ROM
  Uefi,    // OVMF, with iPXE as the ROM
  UefiPxe, // OVMF's own PXE, no ROM: as a bare N100 box has it
  UefiHttp // OVMF's HTTP boot alone
};

struct VirtualDuck {
  inventory::Mac mac{};
  std::string bridge, tap;
  Firmware firmware = Firmware::Bios;
  int memory_mib = 256;
  int link_mbps = 0;         // 0 = the card says that it does not know
  bool mute = false;         // magic packets do nothing: no power
  bool amnesia = false;      // its firmware boots nothing over the network
  std::filesystem::path esp; // a folder that it sees as a FAT disk; empty = no disk
};

// "mac=52:54:00:21:01:01,bridge=br1,tap=t1,firmware=bios,memory=256,link=100,mute,amnesia,esp=/tmp/esp"; nothing where it is
// wrong.
[[nodiscard]] std::optional<VirtualDuck> parse_virtual_duck(std::string_view text);

// Of QEMU 7.2 with TCG. `folder` holds this duck's files: serial.log, and a copy of the firmware's variables.
[[nodiscard]] std::vector<std::string> qemu_arguments(const VirtualDuck& duck, const std::filesystem::path& folder);

// The duck that a frame wakes, as a network card finds it: ethertype 0x0842, or UDP of whatever port. Never the broadcast
// address.
[[nodiscard]] std::optional<inventory::Mac> woken_by(std::string_view frame);

} // namespace ductl::lab
