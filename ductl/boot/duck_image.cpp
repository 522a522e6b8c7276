#include "ductl/boot/duck_image.hpp"

#include "netboot/boot_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>

namespace ductl::boot {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kHowToMakeOne =
    "build one with `ninja -C build duck-image` (docs/image.md), or name its folder as netboot.image in the inventory";

} // namespace

std::vector<fs::path> image_folders(const inventory::Flock& flock, const fs::path& program) {
  if (!flock.netboot.image.empty()) {
    const fs::path given(flock.netboot.image);
    return {given.is_absolute() || flock.file.empty() ? given : (flock.file.parent_path() / given).lexically_normal()};
  }
  const fs::path root = program.parent_path().parent_path(); // of build/bin/ductl, or /usr/local/bin/ductl
  return {root / "netboot/image", root / "share/ductl/image"};
}

Expected<DuckImage> find_duck_image(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::ifstream in(folder / kManifest, std::ios::binary);
    if (!in) continue;
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    auto manifest = image::parse_manifest(text, (folder / kManifest).string());
    if (!manifest) return tl::unexpected(manifest.error());
    return DuckImage{folder, std::move(*manifest)};
  }
  std::vector<std::string> places;
  for (const fs::path& folder : folders) places.push_back(folder.string());
  return fail(ErrorCode::kBootFile, "there is no image for ducks to boot", fmt::format("{}", fmt::join(places, ", ")),
              kHowToMakeOne);
}

Expected<DuckImage> find_duck_image(const inventory::Flock& flock) {
  std::error_code error;
  return find_duck_image(image_folders(flock, fs::read_symlink("/proc/self/exe", error)));
}

Expected<netboot::BootFiles> load_boot_files(const DuckImage& image) {
  netboot::BootFiles files;
  for (const auto* listed : {&image.manifest.files, &image.manifest.loaders}) {
    for (const auto& [name, digest] : *listed) {
      const fs::path path = image.folder / name;
      auto file = netboot::BootFile::from_disk(path);
      if (!file) return tl::unexpected(file.error());
      if ((*file)->sha256() != digest.sha256)
        return fail(ErrorCode::kBootFile, fmt::format("{} is not the file that the image's manifest names", name), path.string(),
                    "is an image being made right now? then try again; otherwise make it anew: `ninja -C build duck-image`");
      files.add(name, std::move(*file));
    }
  }
  const netboot::BootNames names;
  for (const std::string& name : {names.bios_loader, names.efi_loader})
    if (!files.find(name))
      return fail(ErrorCode::kBootFile, fmt::format("the image was made without iPXE: there is no {}", name),
                  image.folder.string(), kHowToMakeOne);
  return files;
}

} // namespace ductl::boot
