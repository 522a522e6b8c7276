// Putting the image on a duck's own disk or on a stick: the file that UEFI firmware starts when its boot order is lost. I/O.
#pragma once

#include "ductl/boot/duck_image.hpp"

namespace ductl::boot {

struct EspFile {
  std::filesystem::path file; // FOLDER/EFI/BOOT/BOOTX64.EFI
  bool changed = false;       // false: it was this image already
  bool foreign = false;       // another program's loader was there, and was replaced
  bool fat = true;            // the file system is one that firmware reads
};

// `folder` is where the EFI system partition is mounted. A loader that is not a duck's image is replaced only with
// `replace_foreign` (kNotConfirmed otherwise). Written whole beside it, synced, and renamed: a power cut leaves the old one or
// the new one.
[[nodiscard]] Expected<EspFile> write_esp(const DuckImage& image, const std::filesystem::path& folder, bool replace_foreign);

} // namespace ductl::boot
