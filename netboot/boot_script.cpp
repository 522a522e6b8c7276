#include "netboot/boot_script.hpp"

#include <fmt/format.h>

namespace ductl::netboot {
namespace {

std::string retry_lines() {
  return fmt::format("\n:again\n"
                     "inc tries\n"
                     "iseq ${{tries}} {} && goto give_up ||\n"
                     "echo try ${{tries}} failed, another in {} s\n"
                     "sleep {}\n"
                     "goto start\n"
                     "\n:give_up\n"
                     "echo no boot after {} tries: starting anew\n"
                     "sleep {}\n"
                     "reboot || exit\n",
                     kTriesMax, kTryWaitSeconds, kTryWaitSeconds, kTriesMax, kTryWaitSeconds);
}

std::string ip_argument(const BootPlan& plan, const BootDuck& duck) {
  if (duck.address == 0) return "ip=${netX/ip}::${netX/gateway}:${netX/netmask}";
  const BootPort& port = plan.ports[duck.port_index];
  return fmt::format("ip={}:::{}", inventory::to_string(duck.address), inventory::to_string(netmask(port.prefix_length)));
}

} // namespace

std::string script_name(const Mac& mac) { return "boot/" + hyphenated(mac) + ".ipxe"; }

std::string boot_script(const BootPlan& plan, const BootDuck& duck, const ImageNames& image) {
  // UEFI's kernel finds its initrd by the name given twice here; a BIOS ignores both.
  return fmt::format("#!ipxe\n"
                     "# {} ({})\n"
                     "set tries:int32 0\n"
                     "\n:start\n"
                     "imgfree\n"
                     "kernel {} initrd=initrd {} BOOTIF=01-{}{}{} || goto again\n"
                     "initrd --name initrd {} || goto again\n"
                     "boot || goto again\n{}",
                     duck.name, inventory::to_string(duck.mac), boot_url(plan, duck.port_index, image.kernel),
                     ip_argument(plan, duck), hyphenated(duck.mac), plan.kernel_arguments.empty() ? "" : " ",
                     plan.kernel_arguments, boot_url(plan, duck.port_index, image.initrd), retry_lines());
}

std::string autoexec_script(const BootPlan& plan, int port_index) {
  return fmt::format("#!ipxe\n"
                     "set tries:int32 0\n"
                     "\n:start\n"
                     "ifopen netX || goto again\n"
                     "isset ${{netX/ip}} || dhcp netX || goto again\n"
                     "chain {} || goto again\n{}",
                     boot_url(plan, port_index, "boot/${netX/mac:hexhyp}.ipxe"), retry_lines());
}

} // namespace ductl::netboot
