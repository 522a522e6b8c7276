#include "tests/lab/virtual_duck.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace ductl::lab {
namespace {

constexpr const char* kOvmf = "/usr/share/OVMF/OVMF_CODE_4M.fd";

bool read_number(std::string_view text, int& into) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), into);
  return status == std::errc{} && end == text.data() + text.size();
}

bool read_firmware(std::string_view text, Firmware& into) {
  for (const auto& [word, kind] : {std::pair{"bios", Firmware::Bios}, std::pair{"uefi", Firmware::Uefi},
                                   std::pair{"uefi-pxe", Firmware::UefiPxe}, std::pair{"uefi-http", Firmware::UefiHttp}})
    if (text == word) return into = kind, true;
  return false;
}

bool read_word(std::string_view word, VirtualDuck& duck) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals), value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  if (key == "mac") {
    const auto mac = inventory::parse_mac(value);
    if (mac) duck.mac = *mac;
    return mac.has_value();
  }
  if (key == "bridge") return duck.bridge = value, !value.empty();
  if (key == "tap") return duck.tap = value, !value.empty();
  if (key == "esp") return duck.esp = value, !value.empty();
  if (key == "firmware") return read_firmware(value, duck.firmware);
  if (key == "memory") return read_number(value, duck.memory_mib);
  if (key == "link") return read_number(value, duck.link_mbps);
  if (word == "mute") return duck.mute = true;
  if (word == "amnesia") return duck.amnesia = true;
  return false;
}

std::string card(const VirtualDuck& duck) {
  std::string text = fmt::format("virtio-net-pci,netdev=n0,mac={}", inventory::to_string(duck.mac));
  if (!duck.amnesia) text += ",bootindex=1";
  if (duck.amnesia || duck.firmware == Firmware::UefiPxe || duck.firmware == Firmware::UefiHttp) text += ",romfile=";
  if (duck.link_mbps != 0) text += fmt::format(",speed={},duplex=full", duck.link_mbps);
  return text;
}

} // namespace

std::optional<VirtualDuck> parse_virtual_duck(std::string_view text) {
  VirtualDuck duck;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!read_word(text.substr(0, comma), duck)) return std::nullopt;
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  if (duck.mac == inventory::Mac{} || duck.bridge.empty() || duck.tap.empty()) return std::nullopt;
  return duck;
}

std::vector<std::string> qemu_arguments(const VirtualDuck& duck, const std::filesystem::path& folder) {
  const std::string mac = inventory::to_string(duck.mac);
  std::vector<std::string> words{"/usr/bin/qemu-system-x86_64", "-machine", "q35,accel=tcg,graphics=off", "-cpu", "max", "-smp",
                                 "1", "-m", std::to_string(duck.memory_mib), "-nodefaults", "-no-user-config", "-display", "none",
                                 "-serial", "file:" + (folder / "serial.log").string(), "-netdev",
                                 fmt::format("tap,id=n0,ifname={},script=no,downscript=no", duck.tap), "-device", card(duck),
                                 "-boot", "reboot-timeout=3000",
                                 // Without it every client's UUID is zero.
                                 "-uuid",
                                 fmt::format("00000000-0000-4000-8000-{}{}{}{}{}{}", mac.substr(0, 2), mac.substr(3, 2),
                                             mac.substr(6, 2), mac.substr(9, 2), mac.substr(12, 2), mac.substr(15, 2))};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (duck.firmware != Firmware::Bios)
    add({"-drive", fmt::format("if=pflash,format=raw,unit=0,readonly=on,file={}", kOvmf), "-drive",
         fmt::format("if=pflash,format=raw,unit=1,file={}", (folder / "variables.fd").string())});
  if (duck.firmware == Firmware::UefiHttp)
    for (const char* support : {"IPv4PXESupport", "IPv6PXESupport"})
      add({"-fw_cfg", fmt::format("name=opt/org.tianocore/{},string=no", support)});
  if (!duck.esp.empty())
    add({"-drive", fmt::format("if=none,id=esp,format=raw,readonly=on,file=fat:{}", duck.esp.string()), "-device",
         "virtio-blk-pci,drive=esp,bootindex=0"});
  return words;
}

std::optional<inventory::Mac> woken_by(std::string_view frame) {
  constexpr std::size_t kEthernet = 14, kPattern = 102;
  if (frame.size() < kEthernet + kPattern) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(frame[at]); };
  const unsigned type = byte(12) << 8 | byte(13);
  const bool udp = type == 0x0800 && byte(kEthernet + 9) == 17;
  if (type != 0x0842 && !udp) return std::nullopt;
  const std::size_t start = frame.find("\xff\xff\xff\xff\xff\xff", kEthernet);
  if (start == std::string_view::npos || frame.size() - start < kPattern) return std::nullopt;
  const std::string_view mac = frame.substr(start + 6, 6);
  for (std::size_t copy = 1; copy < 16; ++copy)
    if (frame.substr(start + 6 + copy * 6, 6) != mac) return std::nullopt;
  inventory::Mac found;
  std::copy(mac.begin(), mac.end(), reinterpret_cast<char*>(found.data()));
  if (mac == "\xff\xff\xff\xff\xff\xff") return std::nullopt;
  return found;
}

} // namespace ductl::lab
