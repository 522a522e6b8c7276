// manifest.json: which image lies beside it, made of what. docs/image.md has every key.
//
// Nothing of the building machine is in it: no time, no path, no name. Two clones of the same revision, with the same
// packages, write the same bytes.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ductl::image {

inline constexpr int kManifestFormat = 1;

struct FileDigest {
  std::uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileDigest&) const = default;
};
[[nodiscard]] FileDigest digest_of(std::string_view bytes);

struct PackageVersion {
  std::string name, version;
  bool operator==(const PackageVersion&) const = default;
};

// What a duck runs, digest by digest: "cmdline", "initramfs" (uncompressed, without the id itself), "stub", "vmlinuz".
using ImageParts = std::map<std::string, std::string>;

// The image's id: SHA-256 of the lines "DIGEST  NAME\n", sorted by name, as sha256sum would print them. It names what a
// duck runs, not how that is packed: another version of zstd gives the same image.
[[nodiscard]] std::string image_id(const ImageParts& parts);

struct Manifest {
  std::string image; // image_id of the parts
  std::string ductl_version, ductl_revision;
  std::string kernel_release;
  std::string command_line;                       // of duck.efi
  std::map<std::string, PackageVersion> packages; // "kernel", "stub", and where used "firmware", "loaders"
  std::vector<std::string> modules;               // in load order
  std::vector<std::string> firmware;
  ImageParts parts;
  std::map<std::string, FileDigest> files;   // duck.efi, initrd.zst, vmlinuz
  std::map<std::string, FileDigest> loaders; // ipxe.efi, ...: how a duck comes to the image, no part of it
  bool operator==(const Manifest&) const = default;
};

[[nodiscard]] std::string manifest_text(const Manifest& manifest);
// Fails with kImageInput, naming the key: not JSON, another format, a digest that is none, an id that is not its parts'.
[[nodiscard]] Expected<Manifest> parse_manifest(std::string_view text, const std::string& place);

} // namespace ductl::image
