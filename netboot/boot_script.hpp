// What iPXE is told, as text. Pure.
//
// Every fetch may fail (a switch port that still learns, a server that restarts), and a box that stops at an iPXE prompt
// stays there for ever: so each line goes on to a wait and another try, and after kTriesMax of them the box starts anew.
#pragma once

#include "netboot/boot_file.hpp"
#include "netboot/boot_plan.hpp"

#include <string>

namespace ductl::netboot {

inline constexpr int kTriesMax = 20, kTryWaitSeconds = 3;

// "boot/52-54-00-21-01-01.ipxe": each duck's script has a name of its own, which DHCP tells to that duck.
[[nodiscard]] std::string script_name(const Mac& mac);

// Where kernel and initrd of one image lie: names in BootFiles, by content hash, so that a box never gets the kernel of one
// image and the initrd of another.
struct ImageNames {
  std::string kernel, initrd;
};

// The script of one duck. The address on the kernel's command line is the inventory's; in proxy mode, where that may be
// unknown, it is the one that iPXE was given. Debian kernels ignore ip= and BOOTIF=: the agent reads them.
[[nodiscard]] std::string boot_script(const BootPlan& plan, const BootDuck& duck, const ImageNames& image);

// For iPXE that asks TFTP for autoexec.ipxe before anything else: goes on to the script of the MAC it booted from, on the
// server that it was sent to.
[[nodiscard]] std::string autoexec_script(const BootPlan& plan);

// Adds every duck's script and autoexec.ipxe; kernel and initrd must have been added.
[[nodiscard]] Expected<void> add_scripts(const BootPlan& plan, BootFiles& files);

} // namespace ductl::netboot
