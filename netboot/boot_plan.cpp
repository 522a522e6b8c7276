#include "netboot/boot_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace ductl::netboot {
namespace {

constexpr std::size_t kNameBytesMax = 63, kArgumentsBytesMax = 1024;
constexpr Mac kBroadcastMac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// What may stand in a file's name: it goes into URLs, scripts and 64-byte fields as it is.
bool plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' && std::all_of(name.begin(), name.end(), plain);
}

// iPXE expands ${...} and splits at && and ||; a control character would end the line.
bool plain_arguments(std::string_view text) {
  const auto plain = [](unsigned char c) { return c >= ' ' && c < 0x7f && c != '$' && c != '&' && c != '|' && c != '#'; };
  return text.size() <= kArgumentsBytesMax && std::all_of(text.begin(), text.end(), plain);
}

tl::unexpected<Error> wrong(std::string message, std::string place, std::string next) {
  return fail(ErrorCode::kInventoryValue, std::move(message), std::move(place), std::move(next));
}

Expected<void> check_port(const BootPort& port) {
  if (port.interface.empty() || port.interface.size() > 15)
    return wrong(fmt::format("'{}' is not the name of a network interface", port.interface), port.name,
                 "`ip link` lists the interfaces of this machine");
  if (port.address == 0 || port.prefix_length < 1 || port.prefix_length > 30)
    return wrong("a port that ducks boot from needs an address and a prefix of 1 to 30", port.name,
                 "give the port an address like \"10.21.1.1/24\"");
  return {};
}

Expected<void> check_duck(const BootPlan& plan, const BootDuck& duck) {
  if (duck.port_index < 0 || duck.port_index >= static_cast<int>(plan.ports.size()))
    return wrong("the duck is on no port of the plan", duck.name, "name one of the ports");
  if (!plain_name(duck.name)) return wrong("a duck's name has letters, digits and '-'", duck.name, "rename it");
  if (duck.mac == Mac{} || duck.mac == kBroadcastMac || (duck.mac[0] & 1) != 0)
    return wrong(fmt::format("{} is no MAC address of a machine", inventory::to_string(duck.mac)), duck.name,
                 "it is printed on the box, or shown on its BIOS screen");
  const BootPort& port = plan.ports[duck.port_index];
  if (duck.address == 0 && port.mode == DhcpMode::Full)
    return wrong("a duck that we give an address to needs one", duck.name, "add its address to the inventory");
  if (duck.address != 0 && ((duck.address ^ port.address) & netmask(port.prefix_length)) != 0)
    return wrong(fmt::format("{} is outside of {}/{}", inventory::to_string(duck.address), inventory::to_string(port.address),
                             port.prefix_length),
                 duck.name, "choose an address of the port's network");
  if (duck.address == port.address)
    return wrong("the duck has the address of the host itself", duck.name, "choose another address");
  return {};
}

} // namespace

Expected<void> check_plan(const BootPlan& plan) {
  for (const BootPort& port : plan.ports)
    if (auto sound = check_port(port); !sound) return sound;
  std::set<Mac> macs;
  std::set<Ipv4> addresses;
  for (const BootDuck& duck : plan.ducks) {
    if (auto sound = check_duck(plan, duck); !sound) return sound;
    if (!macs.insert(duck.mac).second)
      return fail(ErrorCode::kInventoryDuplicate, fmt::format("{} belongs to two ducks", inventory::to_string(duck.mac)),
                  duck.name, "each duck has a MAC address of its own");
    if (duck.address != 0 && !addresses.insert(duck.address).second)
      return fail(ErrorCode::kInventoryDuplicate, fmt::format("{} belongs to two ducks", inventory::to_string(duck.address)),
                  duck.name, "each duck has an address of its own");
  }
  const BootNames& n = plan.names;
  for (const std::string* name : {&n.bios_loader, &n.efi_loader, &n.uki, &n.kernel, &n.initrd})
    if (!plain_name(*name)) return wrong(fmt::format("'{}' cannot be the name of a boot file", *name), "boot files", "rename it");
  if (!plain_arguments(plan.kernel_arguments))
    return wrong("kernel arguments are printable ASCII without $ & | #, at most 1024 bytes", "boot plan",
                 "iPXE reads the script line by line and would take these for its own");
  if (plan.lease < std::chrono::seconds(10) || plan.lease > std::chrono::hours(24 * 365))
    return wrong("a lease has 10 seconds to a year", "boot plan", "86400 is a day");
  return {};
}

std::string boot_url(const BootPlan& plan, int port_index, const std::string& name) {
  const std::string host = inventory::to_string(plan.ports[port_index].address);
  return plan.http_port == 80 ? fmt::format("http://{}/{}", host, name)
                              : fmt::format("http://{}:{}/{}", host, plan.http_port, name);
}

std::string hyphenated(const Mac& mac) {
  return fmt::format("{:02x}-{:02x}-{:02x}-{:02x}-{:02x}-{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

std::optional<int> duck_of(const BootPlan& plan, const Mac& mac) {
  for (std::size_t i = 0; i < plan.ducks.size(); ++i)
    if (plan.ducks[i].mac == mac) return static_cast<int>(i);
  return std::nullopt;
}

} // namespace ductl::netboot
