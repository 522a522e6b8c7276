#include "ductl/boot/flock_boot_plan.hpp"

namespace ductl::boot {
namespace {

netboot::Chain chain_of(const std::string& word) {
  if (word == "ipxe") return netboot::Chain::Ipxe;
  if (word == "uki") return netboot::Chain::Uki;
  return word == "http" ? netboot::Chain::Http : netboot::Chain::Auto;
}

} // namespace

netboot::BootPlan flock_boot_plan(const inventory::Flock& flock, const std::string& kernel_arguments) {
  netboot::BootPlan plan;
  for (const inventory::Port& port : flock.ports)
    plan.ports.push_back({.name = port.name,
                          .interface = port.interface,
                          .address = port.address,
                          .prefix_length = port.prefix_length,
                          .mode = flock.netboot.proxy_dhcp ? netboot::DhcpMode::Proxy : netboot::DhcpMode::Full});
  for (const inventory::Duck& duck : flock.ducks)
    plan.ducks.push_back(
        {.name = duck.name,
         .mac = duck.mac.value_or(inventory::Mac{}),
         .port_index = duck.port_index,
         .address = duck.address,
         .chain = chain_of(duck.chain.empty() ? flock.netboot.chain : duck.chain),
         .proxy_style = duck.proxy_style == "4011" ? netboot::ProxyStyle::Port4011 : netboot::ProxyStyle::Bypass});
  plan.kernel_arguments = kernel_arguments;
  plan.http_port = flock.netboot.http_port;
  return plan;
}

} // namespace ductl::boot
