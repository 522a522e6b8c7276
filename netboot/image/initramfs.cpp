#include "netboot/image/initramfs.hpp"

#include "netboot/image/files.hpp"

#include <algorithm>
#include <utility>

namespace ductl::image {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirmwarePlace = "lib/firmware/rtl_nic"; // in Debian's firmware-realtek

} // namespace

const std::vector<std::string>& network_modules() {
  static const std::vector<std::string> names{
      "virtio_net", // virtual ducks
      "virtio_pci", // the bus of the above; nothing names it as a dependency
      "e1000",      // QEMU's own default card
      "e1000e",     // Intel I217 to I219
      "igb",        // Intel I210, I211, I350
      "igc",        // Intel I225, I226: most N100 boxes
      "r8169",      // Realtek RTL8111, RTL8125
      "realtek",    // PHY of the above: without it many boards get no link. Named, so that its absence is an error
  };
  return names;
}

const std::vector<std::string>& machine_modules() {
  static const std::vector<std::string> names{
      "softdog",  // the kernel's own watchdog
      "iTCO_wdt", // Intel's, which a hung kernel cannot hold up; its device comes with one of the next two
      "lpc_ich",    "i2c_i801",
      "coretemp",   // temperature of the cores
      "efi_pstore", // where a panic leaves its words, on a machine that booted by UEFI
  };
  return names;
}

Expected<ChosenModules> choose_modules(const KernelPackage& kernel, const std::vector<std::string>& names) {
  const auto order = kernel.index.load_order(names);
  if (!order) return tl::unexpected(order.error());
  auto lists = kernel.index.trimmed(*order);
  if (!lists) return tl::unexpected(lists.error());
  ChosenModules chosen;
  chosen.lists = std::move(*lists);
  for (const std::string& file : *order) {
    auto bytes = read_file(kernel.modules / file, "the package is damaged: fetch and unpack it again");
    if (!bytes) return tl::unexpected(bytes.error());
    chosen.load_order.emplace_back(flat_name(file));
    chosen.files.emplace(flat_name(file), std::move(*bytes));
  }
  return chosen;
}

Expected<std::map<std::string, std::string>> network_firmware(const DebianPackage& package) {
  std::map<std::string, std::string> firmware;
  const fs::path folder = package.folder / kFirmwarePlace;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".fw") continue;
    auto bytes = read_file(entry.path(), "the package is damaged: fetch and unpack it again");
    if (!bytes) return tl::unexpected(bytes.error());
    firmware.emplace("rtl_nic/" + entry.path().filename().string(), std::move(*bytes));
  }
  if (firmware.empty())
    return fail(ErrorCode::kImageInput, "no firmware of Realtek's network chips in this package", folder.string(),
                "give the unpacked package firmware-realtek, or none");
  return firmware;
}

std::vector<CpioEntry> initramfs_entries(const std::string& agent, const ChosenModules& modules,
                                         const std::map<std::string, std::string>& firmware,
                                         const std::optional<std::string>& image_id) {
  // The kernel opens /dev/console for PID 1 before PID 1 can mount anything.
  std::vector<CpioEntry> entries{cpio_program("init", agent), cpio_folder("dev"), cpio_character_device("dev/console", 5, 1),
                                 cpio_folder("proc"), cpio_folder("sys")};
  const std::string folder = kModulesFolder;
  entries.push_back(cpio_folder(folder));
  for (const auto& [name, bytes] : modules.files) entries.push_back(cpio_file(folder + "/" + name, bytes));
  entries.push_back(cpio_file(folder + "/modules.alias", modules.lists.alias));
  entries.push_back(cpio_file(folder + "/modules.dep", modules.lists.dep));
  entries.push_back(cpio_file(folder + "/modules.softdep", modules.lists.softdep));
  if (!firmware.empty()) {
    entries.push_back(cpio_folder("lib"));
    entries.push_back(cpio_folder(kFirmwareFolder));
    entries.push_back(cpio_folder(std::string(kFirmwareFolder) + "/rtl_nic"));
  }
  for (const auto& [name, bytes] : firmware) entries.push_back(cpio_file(std::string(kFirmwareFolder) + "/" + name, bytes));
  if (image_id) entries.push_back(cpio_file(kImageIdFile, *image_id + "\n"));
  return entries;
}

} // namespace ductl::image
