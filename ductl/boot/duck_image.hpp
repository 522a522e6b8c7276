// The image that a flock's ducks boot: where it lies, which one it is, and its files in memory.
#pragma once

#include "inventory/inventory.hpp"
#include "netboot/boot_file.hpp"
#include "netboot/image/manifest.hpp"

#include <filesystem>

namespace ductl::boot {

struct DuckImage {
  std::filesystem::path folder;
  image::Manifest manifest;
};

// Where it is looked for, the first that counts: netboot.image of the inventory (beside its file, when relative) and nothing
// else; without it the build folder that ductl runs from, then ../share/ductl/image of where it was installed.
[[nodiscard]] std::vector<std::filesystem::path> image_folders(const inventory::Flock& flock,
                                                               const std::filesystem::path& program);

// Reads the manifest alone. kBootFile when there is no image, with how to make one; kImageInput when its manifest is none.
[[nodiscard]] Expected<DuckImage> find_duck_image(const std::vector<std::filesystem::path>& folders);
// The same for this program.
[[nodiscard]] Expected<DuckImage> find_duck_image(const inventory::Flock& flock);

// Its files, each with the digest that the manifest gives it; kBootFile for one that is missing or another, as while an image is
// being made.
[[nodiscard]] Expected<netboot::BootFiles> load_boot_files(const DuckImage& image);

} // namespace ductl::boot
