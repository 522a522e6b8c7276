#include "netboot/image/build_image.hpp"

#include "inventory/version.hpp"
#include "netboot/image/digest.hpp"
#include "netboot/image/files.hpp"
#include "netboot/image/initramfs.hpp"
#include "netboot/image/static_program.hpp"
#include "netboot/image/uki.hpp"
#include "netboot/image/zstd_program.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ductl::image {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>; // name -> bytes

constexpr const char* kDamaged = "the package is damaged or another one: fetch and unpack it again";
constexpr const char* kStubFile = "usr/lib/systemd/boot/efi/linuxx64.efi.stub";
// ipxe.efi brings drivers of its own, snponly.efi uses the firmware's, undionly.kpxe is for BIOS.
constexpr const char* kLoaderFiles[] = {"boot/ipxe.efi", "usr/lib/ipxe/snponly.efi", "usr/lib/ipxe/undionly.kpxe"};

constexpr std::size_t kCommandLineBytesMax = 2047; // x86's COMMAND_LINE_SIZE, less the NUL

Expected<void> check_command_line(const std::string& line) {
  const bool printable = std::all_of(line.begin(), line.end(), [](char letter) { return letter >= ' ' && letter <= '~'; });
  if (printable && line.size() <= kCommandLineBytesMax) return {};
  return fail(ErrorCode::kImageInput, "the kernel's command line is longer than 2047 bytes or not printable ASCII",
              "--command-line", "the kernel would cut it off or misread it: shorten it");
}

// All that is read before anything is made.
struct Materials {
  KernelPackage kernel;
  DebianPackage stub_package;
  std::string vmlinuz, stub, agent;
  ChosenModules modules;
  Files firmware, loaders;
};

Expected<void> read_agent(const fs::path& file, Materials& materials) {
  auto agent = read_file(file, "build it: the target duck-agent-static");
  if (!agent) return tl::unexpected(agent.error());
  materials.agent = std::move(*agent);
  return check_static_program(materials.agent, file.string());
}

Expected<void> read_kernel(const ImageInputs& inputs, Materials& materials) {
  auto vmlinuz = read_file(materials.kernel.vmlinuz, kDamaged);
  if (!vmlinuz) return tl::unexpected(vmlinuz.error());
  std::vector<std::string> names = network_modules();
  for (const std::string& name : machine_modules())
    if (materials.kernel.index.load_order({name})) names.push_back(name);
  names.insert(names.end(), inputs.more_modules.begin(), inputs.more_modules.end());
  auto modules = choose_modules(materials.kernel, names);
  if (!modules) return tl::unexpected(modules.error());
  materials.vmlinuz = std::move(*vmlinuz);
  materials.modules = std::move(*modules);
  return {};
}

Expected<void> read_firmware(const fs::path& folder, Materials& materials, Manifest& manifest) {
  const auto package = DebianPackage::open(folder);
  if (!package) return tl::unexpected(package.error());
  auto firmware = network_firmware(*package);
  if (!firmware) return tl::unexpected(firmware.error());
  materials.firmware = std::move(*firmware);
  manifest.packages["firmware"] = {package->name, package->version};
  return {};
}

Expected<void> read_loaders(const fs::path& folder, Materials& materials, Manifest& manifest) {
  const auto package = DebianPackage::open(folder);
  if (!package) return tl::unexpected(package.error());
  for (const fs::path file : kLoaderFiles) {
    auto bytes = read_file(folder / file, "give the unpacked package ipxe, or none");
    if (!bytes) return tl::unexpected(bytes.error());
    materials.loaders.emplace(file.filename().string(), std::move(*bytes));
  }
  manifest.packages["loaders"] = {package->name, package->version};
  return {};
}

Expected<Materials> read_materials(const ImageInputs& inputs, Manifest& manifest) {
  auto kernel = KernelPackage::open(inputs.kernel);
  if (!kernel) return tl::unexpected(kernel.error());
  auto stub_package = DebianPackage::open(inputs.stub);
  if (!stub_package) return tl::unexpected(stub_package.error());
  auto stub = read_file(inputs.stub / kStubFile, "give the unpacked package systemd-boot-efi");
  if (!stub) return tl::unexpected(stub.error());
  Materials materials{std::move(*kernel), std::move(*stub_package), {}, std::move(*stub), {}, {}, {}, {}};
  if (auto read = read_agent(inputs.agent, materials); !read) return tl::unexpected(read.error());
  if (auto read = read_kernel(inputs, materials); !read) return tl::unexpected(read.error());
  if (inputs.firmware)
    if (auto read = read_firmware(*inputs.firmware, materials, manifest); !read) return tl::unexpected(read.error());
  if (inputs.loaders)
    if (auto read = read_loaders(*inputs.loaders, materials, manifest); !read) return tl::unexpected(read.error());
  return materials;
}

Expected<std::string> initramfs(const Materials& materials, const std::optional<std::string>& image_id) {
  return write_cpio(initramfs_entries(materials.agent, materials.modules, materials.firmware, image_id));
}

void describe(const Materials& materials, const ImageInputs& inputs, Manifest& manifest) {
  manifest.ductl_version = kVersion;
  manifest.ductl_revision = kRevision;
  manifest.kernel_release = materials.kernel.release;
  manifest.command_line = inputs.command_line;
  manifest.packages["kernel"] = {materials.kernel.package.name, materials.kernel.package.version};
  manifest.packages["stub"] = {materials.stub_package.name, materials.stub_package.version};
  manifest.modules = materials.modules.load_order;
  for (const auto& [name, bytes] : materials.firmware) manifest.firmware.push_back(name);
}

std::string os_release(const Manifest& manifest) {
  return fmt::format("ID=duck\nVERSION_ID={}\nPRETTY_NAME=\"duck {}\"\nIMAGE_VERSION={}\n", manifest.ductl_version,
                     manifest.image.substr(0, 12), manifest.image);
}

Expected<Files> make_files(const Materials& materials, const ImageInputs& inputs, const Manifest& manifest) {
  const auto archive = initramfs(materials, manifest.image);
  if (!archive) return tl::unexpected(archive.error());
  auto initrd = compress_zstd(*archive);
  if (!initrd) return tl::unexpected(initrd.error());
  auto uki = assemble_uki(materials.stub, {os_release(manifest), inputs.command_line, *initrd, materials.vmlinuz},
                          (inputs.stub / kStubFile).string(), materials.kernel.vmlinuz.string());
  if (!uki) return tl::unexpected(uki.error());
  return Files{{"duck.efi", std::move(*uki)}, {"initrd.zst", std::move(*initrd)}, {"vmlinuz", materials.vmlinuz}};
}

std::map<std::string, FileDigest> digests_of(const Files& files) {
  std::map<std::string, FileDigest> digests;
  for (const auto& [name, bytes] : files) digests[name] = digest_of(bytes);
  return digests;
}

} // namespace

Expected<Manifest> build_image(const ImageInputs& inputs, const fs::path& out) {
  if (auto good = check_command_line(inputs.command_line); !good) return tl::unexpected(good.error());
  Manifest manifest;
  const auto materials = read_materials(inputs, manifest);
  if (!materials) return tl::unexpected(materials.error());
  describe(*materials, inputs, manifest);
  const auto nameless = initramfs(*materials, std::nullopt);
  if (!nameless) return tl::unexpected(nameless.error());
  manifest.parts = {{"cmdline", sha256(inputs.command_line)},
                    {"initramfs", sha256(*nameless)},
                    {"stub", sha256(materials->stub)},
                    {"vmlinuz", sha256(materials->vmlinuz)}};
  manifest.image = image_id(manifest.parts);
  const auto files = make_files(*materials, inputs, manifest);
  if (!files) return tl::unexpected(files.error());
  manifest.files = digests_of(*files);
  manifest.loaders = digests_of(materials->loaders);
  for (const Files* group : {&*files, &materials->loaders})
    for (const auto& [name, bytes] : *group)
      if (auto written = write_file(out / name, bytes); !written) return tl::unexpected(written.error());
  if (auto written = write_file(out / "manifest.json", manifest_text(manifest)); !written) return tl::unexpected(written.error());
  return manifest;
}

} // namespace ductl::image
