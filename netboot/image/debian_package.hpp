// A Debian package, unpacked into a folder by `dpkg-deb --raw-extract`: its files, and its name and version in
// DEBIAN/control. Never installed.
#pragma once

#include "inventory/error.hpp"
#include "netboot/image/modules/module_index.hpp"

#include <filesystem>
#include <string>

namespace ductl::image {

struct DebianPackage {
  std::filesystem::path folder;
  std::string name, version; // "linux-image-6.1.0-57-amd64", "6.1.192-3"

  // Fails with kImageFile where there is no control file, kImageInput where it lacks a field.
  [[nodiscard]] static Expected<DebianPackage> open(const std::filesystem::path& folder);
};

// The kernel of a linux-image package, and what depmod has written about its modules.
struct KernelPackage {
  DebianPackage package;
  std::string release; // "6.1.0-57-amd64"
  std::filesystem::path vmlinuz;
  std::filesystem::path modules; // the folder of modules.dep, to which its lines are relative
  ModuleIndex index;

  [[nodiscard]] static Expected<KernelPackage> open(const std::filesystem::path& folder);
};

} // namespace ductl::image
