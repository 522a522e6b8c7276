#include "netboot/dhcp/client.hpp"

#include "netboot/boot_script.hpp"

#include <charconv>
#include <string_view>
#include <vector>

namespace ductl::netboot::dhcp {
namespace {

constexpr std::string_view kIpxe = "iPXE", kPxeClient = "PXEClient", kHttpClient = "HTTPClient", kAgent = "DuckAgent";
constexpr std::string_view kArchMark = ":Arch:";
constexpr std::size_t kArchDigits = 5;

std::string_view value_of(const Packet& packet, std::uint8_t code) {
  const std::string* value = packet.find(code);
  return value == nullptr ? std::string_view() : *value;
}

// iPXE sends its user class as four bare letters; RFC 3004 wants a length in front of each.
bool is_ipxe(const Packet& packet) {
  const std::string_view user_class = value_of(packet, option::kUserClass);
  return user_class == kIpxe || user_class == "\4iPXE" || packet.find(option::kIpxe) != nullptr;
}

// Every architecture the client names: option 93 holds one or more 16-bit numbers; where it is missing, option 60 has one.
std::vector<std::uint16_t> architectures(const Packet& packet) {
  std::vector<std::uint16_t> all;
  const std::string_view list = value_of(packet, option::kClientArch);
  for (Reader in(bytes_of(list)); in.rest().size() >= 2;) all.push_back(in.u16());
  if (!all.empty()) return all;
  const std::string_view vendor = value_of(packet, option::kVendorClass);
  const std::size_t at = vendor.find(kArchMark);
  if (at == std::string_view::npos) return all;
  const std::string_view digits = vendor.substr(at + kArchMark.size(), kArchDigits);
  std::uint16_t arch = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), arch).ec == std::errc()) all.push_back(arch);
  return all;
}

// RFC 4578 and its errata: 7 and 9 have been swapped in firmware, and boxes with 64-bit UEFI have been seen to say 2 and 8.
ClientKind kind_of(std::uint16_t arch) {
  switch (arch) {
  case 0: return ClientKind::PxeBios;
  case 6: return ClientKind::PxeEfi32;
  case 2:
  case 7:
  case 8:
  case 9: return ClientKind::PxeEfi;
  case 15:
  case 16: return ClientKind::HttpEfi;
  default: return ClientKind::Other;
  }
}

// The first architecture that we can do something with; 32-bit UEFI only when there is no other.
ClientKind best_kind(const std::vector<std::uint16_t>& all) {
  ClientKind best = ClientKind::Other;
  for (const std::uint16_t arch : all) {
    const ClientKind kind = kind_of(arch);
    if (kind != ClientKind::Other && kind != ClientKind::PxeEfi32) return kind;
    if (kind == ClientKind::PxeEfi32) best = kind;
  }
  return best;
}

BootTarget by_tftp(std::string name) { return {BootTarget::Form::Tftp, std::move(name), {}}; }
BootTarget by_url(std::string name) { return {BootTarget::Form::Url, std::move(name), {}}; }
BootTarget nothing(std::string reason) { return {BootTarget::Form::None, {}, std::move(reason)}; }

constexpr const char* kOnlyHttp = "its chain is \"http\", so PXE is left unanswered and its firmware should go on to HTTP boot";

} // namespace

Client identify(const Packet& packet) {
  const std::string_view vendor = value_of(packet, option::kVendorClass);
  const ClientKind by_arch = best_kind(architectures(packet));
  if (is_ipxe(packet)) return {ClientKind::Ipxe, by_arch == ClientKind::PxeEfi || by_arch == ClientKind::HttpEfi};
  if (vendor.starts_with(kAgent)) return {ClientKind::Agent};
  if (vendor.starts_with(kHttpClient)) return {ClientKind::HttpEfi};
  if (vendor.starts_with(kPxeClient)) // a ROM so old that it names no architecture is a BIOS one
    return {by_arch == ClientKind::Other && architectures(packet).empty() ? ClientKind::PxeBios : by_arch};
  return {ClientKind::Other};
}

const char* to_string(ClientKind kind) {
  switch (kind) {
  case ClientKind::Ipxe: return "iPXE";
  case ClientKind::PxeBios: return "BIOS PXE";
  case ClientKind::PxeEfi: return "UEFI PXE";
  case ClientKind::PxeEfi32: return "32-bit UEFI PXE";
  case ClientKind::HttpEfi: return "UEFI HTTP boot";
  case ClientKind::Agent: return "agent";
  case ClientKind::Other: break;
  }
  return "other system";
}

BootTarget choose_target(const BootNames& names, const BootDuck& duck, const Client& client) {
  const bool uki = duck.chain == Chain::Uki || duck.chain == Chain::Http;
  switch (client.kind) {
  case ClientKind::Ipxe: return by_url(uki && client.efi ? names.uki : script_name(duck.mac));
  case ClientKind::PxeBios: return duck.chain == Chain::Http ? nothing(kOnlyHttp) : by_tftp(names.bios_loader);
  case ClientKind::PxeEfi:
    if (duck.chain == Chain::Http) return nothing(kOnlyHttp);
    return by_tftp(uki ? names.uki : names.efi_loader);
  case ClientKind::PxeEfi32:
    return nothing("its firmware is 32-bit UEFI, for which there is no loader: switch the BIOS to 64 bits");
  case ClientKind::HttpEfi: return by_url(duck.chain == Chain::Ipxe ? names.efi_loader : names.uki);
  case ClientKind::Agent:
  case ClientKind::Other: return {BootTarget::Form::Address, {}, {}};
  }
  return nothing("unknown client");
}

} // namespace ductl::netboot::dhcp
