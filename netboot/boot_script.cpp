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
  const BootPort& port = plan.ports[duck.port_index];
  const std::string host = inventory::to_string(port.address); // the agent lets nobody else adopt it
  if (duck.address == 0) return fmt::format("ip=${{netX/ip}}:{}:${{netX/gateway}}:${{netX/netmask}}", host);
  return fmt::format("ip={}:{}::{}", inventory::to_string(duck.address), host, inventory::to_string(netmask(port.prefix_length)));
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

std::string autoexec_script(const BootPlan& plan) {
  const std::string port = plan.http_port == 80 ? "" : fmt::format(":{}", plan.http_port);
  return fmt::format("#!ipxe\n"
                     "set tries:int32 0\n"
                     "\n:start\n"
                     "ifopen netX || goto again\n"
                     "isset ${{netX/ip}} || dhcp netX || goto again\n"
                     "chain http://${{next-server}}{}/boot/${{netX/mac:hexhyp}}.ipxe || goto again\n{}",
                     port, retry_lines());
}

Expected<void> add_scripts(const BootPlan& plan, BootFiles& files) {
  for (const std::string& name : {plan.names.kernel, plan.names.initrd})
    if (!files.find(name))
      return fail(ErrorCode::kBootFile, fmt::format("there is no '{}' among the boot files", name), "boot files",
                  "build the image first");
  const ImageNames image{files.hashed_name(plan.names.kernel), files.hashed_name(plan.names.initrd)};
  const auto add = [&](const std::string& name, const std::string& text) -> Expected<void> {
    auto file = BootFile::from_bytes(bytes_of(text));
    if (!file) return tl::unexpected(file.error());
    files.add(name, std::move(*file));
    return {};
  };
  for (const BootDuck& duck : plan.ducks)
    if (auto added = add(script_name(duck.mac), boot_script(plan, duck, image)); !added) return added;
  return add("autoexec.ipxe", autoexec_script(plan));
}

} // namespace ductl::netboot
