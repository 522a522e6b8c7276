// The unified kernel image, duck.efi: one file that UEFI loads by TFTP, HTTP or from a disk and that holds all of a boot.
// systemd's stub starts first, and finds name, command line, initramfs and kernel in sections of its own file.
#pragma once

#include "inventory/error.hpp"

#include <string>
#include <string_view>

namespace ductl::image {

struct UkiParts {
  std::string os_release;   // .osrel: KEY=value lines; boot menus show it
  std::string command_line; // .cmdline
  std::string_view initrd;  // .initrd
  std::string_view kernel;  // .linux, with an EFI stub of its own
};

// `stub` is systemd's linuxx64.efi.stub; stub and kernel must be for x86-64. Fails with kImageInput.
[[nodiscard]] Expected<std::string> assemble_uki(std::string_view stub, const UkiParts& parts, const std::string& stub_place,
                                                 const std::string& kernel_place);

} // namespace ductl::image
