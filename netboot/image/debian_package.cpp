#include "netboot/image/debian_package.hpp"

#include "netboot/image/files.hpp"

#include <fmt/format.h>
#include <utility>
#include <vector>

namespace ductl::image {
namespace {

namespace fs = std::filesystem;

// "Version: 6.1.192-3"; "" where there is none.
std::string field(const std::string& control, const std::string& name) {
  const std::string begin = "\n" + name + ": ";
  const std::string text = "\n" + control;
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return {};
  const std::size_t value = at + begin.size();
  return text.substr(value, text.find('\n', value) - value);
}

Expected<std::string> only_release(const fs::path& folder) {
  std::vector<std::string> releases;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "lib/modules", error))
    if (entry.is_directory()) releases.push_back(entry.path().filename().string());
  if (releases.size() == 1) return releases.front();
  return fail(ErrorCode::kImageInput, fmt::format("not the package of one kernel: lib/modules holds {} of them", releases.size()),
              folder.string(), "unpack linux-image-6.1.0-N-amd64 itself, not linux-image-amd64, which only depends on it");
}

Expected<ModuleIndex> read_index(const fs::path& folder, const fs::path& modules, const std::string& release) {
  const std::string next = fmt::format("run: depmod -b {} {} (package kmod)", folder.string(), release);
  ModuleTexts texts;
  const std::pair<const char*, std::string*> lists[] = {{"modules.dep", &texts.dep},
                                                        {"modules.alias", &texts.alias},
                                                        {"modules.softdep", &texts.softdep},
                                                        {"modules.builtin", &texts.builtin}};
  for (const auto& [name, text] : lists) {
    auto contents = read_file(modules / name, next);
    if (!contents) return tl::unexpected(contents.error());
    *text = std::move(*contents);
  }
  return ModuleIndex::parse(texts, modules.string());
}

} // namespace

Expected<DebianPackage> DebianPackage::open(const fs::path& folder) {
  const fs::path file = folder / "DEBIAN/control";
  const auto control = read_file(file, "unpack the package with: dpkg-deb --raw-extract PACKAGE.deb FOLDER");
  if (!control) return tl::unexpected(control.error());
  DebianPackage package{folder, field(*control, "Package"), field(*control, "Version")};
  if (package.name.empty() || package.version.empty())
    return fail(ErrorCode::kImageInput, "no control file of a package: Package or Version is missing", file.string(),
                "unpack the package anew with dpkg-deb --raw-extract");
  return package;
}

Expected<KernelPackage> KernelPackage::open(const fs::path& folder) {
  auto package = DebianPackage::open(folder);
  if (!package) return tl::unexpected(package.error());
  auto release = only_release(folder);
  if (!release) return tl::unexpected(release.error());
  const fs::path modules = folder / "lib/modules" / *release;
  auto index = read_index(folder, modules, *release);
  if (!index) return tl::unexpected(index.error());
  return KernelPackage{std::move(*package), *release, folder / ("boot/vmlinuz-" + *release), modules, std::move(*index)};
}

} // namespace ductl::image
