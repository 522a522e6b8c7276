// The initramfs archive: cpio in its "newc" form, written so that the same entries always give the same bytes.
//
// Names are sorted, every owner is 0:0, every time 0, inode numbers count from 1 in the order of the names: nothing of
// the machine, the user, the umask or the hour gets in. Refused is what the kernel would skip without a word (a file
// whose folder is missing, a name that is too long) and what would make two archives of the same tree differ.
// docs/image.md.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ductl::image {

struct CpioEntry {
  std::string path;                                 // from the root, without a slash in front: "dev/console"
  std::uint32_t mode = 0;                           // type and permissions, as in stat
  std::string data;                                 // a file's bytes, a symlink's target
  std::uint32_t device_major = 0, device_minor = 0; // of device nodes
  bool operator==(const CpioEntry&) const = default;
};

[[nodiscard]] CpioEntry cpio_folder(std::string path);
[[nodiscard]] CpioEntry cpio_file(std::string path, std::string data);    // 0644
[[nodiscard]] CpioEntry cpio_program(std::string path, std::string data); // 0755
[[nodiscard]] CpioEntry cpio_symlink(std::string path, std::string target);
[[nodiscard]] CpioEntry cpio_character_device(std::string path, std::uint32_t major, std::uint32_t minor); // 0600

// In any order in, sorted in the archive. Fails with kImageInput, naming the entry.
[[nodiscard]] Expected<std::string> write_cpio(std::vector<CpioEntry> entries);

} // namespace ductl::image
