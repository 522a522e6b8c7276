// From unpacked packages and an agent to the files of an image. The only file here, beside main, that knows all others.
#pragma once

#include "inventory/error.hpp"
#include "netboot/image/manifest.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ductl::image {

// ttyS0 for a laboratory or a serial header; tty0, the last one, is /dev/console. What PID 1 writes to /dev/kmsg comes out
// on both; without printk.devkmsg the kernel lets through ten lines in five seconds. After a panic: once more.
inline constexpr const char* kCommandLine = "console=ttyS0,115200 console=tty0 printk.devkmsg=on panic=60";

struct ImageInputs {
  std::filesystem::path kernel;                  // unpacked packages: Debian's kernel, with depmod's lists,
  std::filesystem::path stub;                    // systemd-boot-efi,
  std::optional<std::filesystem::path> firmware; // firmware-realtek,
  std::optional<std::filesystem::path> loaders;  // and ipxe
  std::filesystem::path agent;                   // a static program
  std::vector<std::string> more_modules;         // beside network_modules()
  std::string command_line = kCommandLine;       // of duck.efi
};

// Writes duck.efi, initrd.zst, vmlinuz, with an ipxe package its three loaders, and last manifest.json. Nothing is
// written before all inputs are found good.
[[nodiscard]] Expected<Manifest> build_image(const ImageInputs& inputs, const std::filesystem::path& out);

} // namespace ductl::image
