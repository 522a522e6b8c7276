// A flock of three machines on two ports, and an image that is one in everything but its contents.
#pragma once

#include "inventory/inventory.hpp"
#include "netboot/image/manifest.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>

namespace ductl::boot {

inline inventory::Flock two_ports() {
  constexpr std::string_view kInventory = R"([flock]
name = "pxe"
[[port]]
name = "port1"
interface = "br1"
address = "10.21.1.1/24"
[[port]]
name = "port2"
interface = "br2"
address = "10.21.2.1/24"
[[ducks]]
port = "port1"
name = "duck[1-2]"
address = "10.21.1.[101-102]"
mac_first = "52:54:00:21:01:01"
[[duck]]
port = "port2"
name = "duck3"
address = "10.21.2.101"
mac = "52:54:00:21:02:01"
chain = "uki"
proxy_style = "4011"
[power]
driver = "wake-on-lan"
[netboot]
enabled = true
chain = "ipxe"
http_port = 8069
[model]
source = "org/name"
)";
  return inventory::parse_inventory(kInventory, "flock.toml").value();
}

// Every file holds its own name.
inline image::Manifest write_small_image(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  image::Manifest manifest;
  manifest.ductl_version = "0";
  manifest.ductl_revision = "none";
  manifest.kernel_release = "6.1.0-57-amd64";
  manifest.command_line = "console=ttyS0";
  manifest.packages["kernel"] = {"linux-image", "1"};
  manifest.packages["stub"] = {"systemd-boot-efi", "1"};
  for (const char* part : {"cmdline", "initramfs", "stub", "vmlinuz"}) manifest.parts[part] = image::digest_of(part).sha256;
  manifest.image = image::image_id(manifest.parts);
  const auto add = [&](auto& files, const std::string& name) {
    std::ofstream(folder / name) << name;
    files[name] = image::digest_of(name);
  };
  for (const char* name : {"duck.efi", "initrd.zst", "vmlinuz"}) add(manifest.files, name);
  for (const char* name : {"ipxe.efi", "undionly.kpxe"}) add(manifest.loaders, name);
  std::ofstream(folder / "manifest.json") << image::manifest_text(manifest);
  return manifest;
}

} // namespace ductl::boot
