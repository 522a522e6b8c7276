// What lies in a duck's root file system. docs/image.md.
#pragma once

#include "inventory/error.hpp"
#include "netboot/image/cpio.hpp"
#include "netboot/image/debian_package.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ductl::image {

inline constexpr const char* kModulesFolder = "modules";       // the modules and their lists, flat
inline constexpr const char* kFirmwareFolder = "lib/firmware"; // where the kernel looks
inline constexpr const char* kImageIdFile = "image.id";        // which image this is, one line

// The drivers of a duck's network, by the boards that we know and by QEMU. Each comes with what it needs.
[[nodiscard]] const std::vector<std::string>& network_modules();
// What a duck guards and looks at itself with: watchdogs and sensors. Left out where a kernel has none.
[[nodiscard]] const std::vector<std::string>& machine_modules();

struct ChosenModules {
  std::vector<std::string> load_order;      // flat names
  std::map<std::string, std::string> files; // flat name -> bytes
  ModuleTexts lists;                        // trimmed
};

// `names` and all they need, read from the kernel's package. Fails with kImageInput or kImageFile.
[[nodiscard]] Expected<ChosenModules> choose_modules(const KernelPackage& kernel, const std::vector<std::string>& names);

// Firmware that Realtek's network chips ask for: "rtl_nic/rtl8168h-2.fw" -> bytes. Fails where the package has none.
[[nodiscard]] Expected<std::map<std::string, std::string>> network_firmware(const DebianPackage& package);

// The entries of the archive. Without the image's id where that is not yet known: the id is a digest of these entries.
[[nodiscard]] std::vector<CpioEntry> initramfs_entries(const std::string& agent, const ChosenModules& modules,
                                                       const std::map<std::string, std::string>& firmware,
                                                       const std::optional<std::string>& image_id);

} // namespace ductl::image
