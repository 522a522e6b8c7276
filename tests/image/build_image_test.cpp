// From packages of a few bytes to the files of an image. Needs the `zstd` program, as building an image does.
#include "netboot/image/build_image.hpp"

#include "netboot/image/digest.hpp"
#include "netboot/image/initramfs.hpp"
#include "netboot/image/pe_file.hpp"
#include "tests/image/cpio_reader.hpp"
#include "tests/image/small_packages.hpp"
#include "tests/image/tiny_pe.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <ostream>
#include <sys/stat.h>

namespace ductl::image {
namespace {

namespace fs = std::filesystem;
using ductl::test::TempFolder;
using ductl::test::text_of;
using testing::ElementsAre;
using testing::HasSubstr;

Manifest built(const ImageInputs& inputs, const fs::path& out) {
  auto manifest = build_image(inputs, out);
  EXPECT_TRUE(manifest) << manifest.error().text();
  return manifest.value_or(Manifest());
}

std::vector<CpioEntry> unpacked(const std::string& compressed) {
  const auto result = ductl::test::run_program({"/usr/bin/env", "zstd", "-dc"}, {{}, compressed, std::chrono::seconds(20), {}});
  EXPECT_EQ(result.status, 0) << result.err;
  return test::cpio_entries(result.out);
}

std::string contents_of(const std::vector<CpioEntry>& entries, const std::string& path) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const CpioEntry& e) { return e.path == path; });
  return found == entries.end() ? "(not there)" : found->data;
}

std::string every_file(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path().filename().string() + "\n" + text_of(entry.path()));
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& file : files) all += file;
  return all;
}

TEST(BuildImage, leaves_the_files_of_an_image_and_no_other) {
  const TempFolder folder;
  const Manifest manifest = built(test::small_packages(folder.path()), folder.path() / "image");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path() / "image")) {
    names.push_back(entry.path().filename().string());
    struct stat info {};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0644u) << names.back();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("duck.efi", "initrd.zst", "vmlinuz", "manifest.json", "ipxe.efi",
                                                   "snponly.efi", "undionly.kpxe"));
  for (const auto& [name, file] : manifest.files) EXPECT_EQ(digest_of(text_of(folder.path() / "image" / name)), file) << name;
  for (const auto& [name, file] : manifest.loaders) EXPECT_EQ(digest_of(text_of(folder.path() / "image" / name)), file) << name;
  const auto read = parse_manifest(text_of(folder.path() / "image/manifest.json"), "manifest.json");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, manifest);
}

TEST(BuildImage, the_initramfs_holds_agent_modules_lists_firmware_and_id) {
  const TempFolder folder;
  ImageInputs inputs = test::small_packages(folder.path());
  inputs.more_modules = {"virtio_blk"};
  const Manifest manifest = built(inputs, folder.path() / "image");
  const auto entries = unpacked(text_of(folder.path() / "image/initrd.zst"));
  EXPECT_EQ(contents_of(entries, "init"), test::tiny_elf(false));
  EXPECT_EQ(contents_of(entries, "image.id"), manifest.image + "\n");
  EXPECT_EQ(contents_of(entries, "lib/firmware/rtl_nic/rtl8168h-2.fw"), "firmware");
  EXPECT_EQ(contents_of(entries, "modules/igc.ko"), "module kernel/drivers/net/ethernet/intel/igc/igc.ko");
  EXPECT_THAT(contents_of(entries, "modules/modules.dep"), HasSubstr("\nigc.ko:\n"));
  EXPECT_THAT(contents_of(entries, "modules/modules.dep"), HasSubstr("\nvirtio_blk.ko: virtio.ko virtio_ring.ko\n"));
  EXPECT_EQ(contents_of(entries, "modules/modules.softdep"), "softdep r8169 pre: realtek\n");
  EXPECT_THAT(contents_of(entries, "modules/modules.alias"), HasSubstr("alias virtio:d00000001v* virtio_net\n"));
  EXPECT_NE(contents_of(entries, "dev/console"), "(not there)");
  for (const std::string& module : manifest.modules) EXPECT_NE(contents_of(entries, "modules/" + module), "(not there)");
  EXPECT_THAT(manifest.modules, testing::IsSupersetOf({"r8169.ko", "realtek.ko", "igb.ko", "dca.ko", "virtio_blk.ko"}));
  EXPECT_THAT(manifest.firmware, ElementsAre("rtl_nic/rtl8168h-2.fw"));
  EXPECT_EQ(manifest.packages.at("kernel"), (PackageVersion{"linux-image-6.1.0-57-amd64", "6.1.192-3"}));
}

TEST(BuildImage, the_uki_holds_the_files_that_lie_beside_it) {
  const TempFolder folder;
  ImageInputs inputs = test::small_packages(folder.path());
  inputs.command_line = "console=tty0 quiet";
  const Manifest manifest = built(inputs, folder.path() / "image");
  const std::string uki = text_of(folder.path() / "image/duck.efi");
  const auto header = parse_pe(uki, "duck.efi");
  ASSERT_TRUE(header) << header.error().text();
  EXPECT_EQ(section_bytes(uki, *header->find(".cmdline")), "console=tty0 quiet");
  EXPECT_EQ(section_bytes(uki, *header->find(".initrd")), text_of(folder.path() / "image/initrd.zst"));
  EXPECT_EQ(section_bytes(uki, *header->find(".linux")), text_of(folder.path() / "image/vmlinuz"));
  EXPECT_THAT(section_bytes(uki, *header->find(".osrel")), HasSubstr("IMAGE_VERSION=" + manifest.image + "\n"));
}

TEST(BuildImage, the_same_inputs_elsewhere_under_another_umask_at_another_time_give_the_same_bytes) {
  const TempFolder here;
  static_cast<void>(built(test::small_packages(here.path()), here.path() / "image"));
  const mode_t umask_before = ::umask(0077);
  const TempFolder there;
  const ImageInputs inputs = test::small_packages(there.path() / "a longer path");
  for (const auto& entry : fs::recursive_directory_iterator(there.path()))
    if (entry.is_regular_file()) fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(1000));
  fs::permissions(inputs.agent, fs::perms::owner_all);
  static_cast<void>(built(inputs, there.path() / "image"));
  ::umask(umask_before);
  EXPECT_EQ(every_file(here.path() / "image"), every_file(there.path() / "image"));
}

TEST(BuildImage, whatever_a_duck_runs_changes_its_id_and_loaders_do_not) {
  const TempFolder folder;
  const ImageInputs inputs = test::small_packages(folder.path());
  std::vector<std::string> ids{built(inputs, folder.path() / "image").image};
  const auto changed = [&](const ImageInputs& other) { ids.push_back(built(other, folder.path() / "image").image); };
  ImageInputs other = inputs;
  other.command_line += " quiet";
  changed(other);
  other = inputs;
  other.firmware.reset();
  changed(other);
  other = inputs;
  other.more_modules = {"virtio_blk"};
  changed(other);
  test::write(inputs.agent, test::tiny_elf(false) + "more");
  changed(inputs);
  test::write(inputs.stub / "usr/lib/systemd/boot/efi/linuxx64.efi.stub", test::tiny_pe() + "x");
  changed(inputs);
  test::write(inputs.kernel / "boot/vmlinuz-6.1.0-57-amd64", test::tiny_pe() + "x");
  changed(inputs);
  const std::string last = ids.back();
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  test::write(*inputs.loaders / "boot/ipxe.efi", "another");
  EXPECT_EQ(built(inputs, folder.path() / "image").image, last);
}

// What is wrong, and what the person should do about it. Nothing may have been written.
struct BadInput {
  const char* name;
  void (*spoil)(ImageInputs&, const fs::path&);
  const char *message, *place, *next;
};
void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.name; }

class BuildImageBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(BuildImageBadInput, is_named_and_nothing_is_written) {
  const TempFolder folder;
  ImageInputs inputs = test::small_packages(folder.path());
  GetParam().spoil(inputs, folder.path());
  const auto manifest = build_image(inputs, folder.path() / "image");
  ASSERT_FALSE(manifest.has_value());
  EXPECT_THAT(manifest.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(manifest.error().place, HasSubstr(GetParam().place));
  EXPECT_THAT(manifest.error().next, HasSubstr(GetParam().next));
  EXPECT_FALSE(fs::exists(folder.path() / "image"));
}

const BadInput kBadInputs[] = {
    {"kernel_not_unpacked", [](ImageInputs& in, const fs::path&) { in.kernel = "/nowhere"; }, "No such file",
     "/nowhere/DEBIAN/control", "dpkg-deb --raw-extract"},
    {"kernel_without_version",
     [](ImageInputs& in, const fs::path&) { test::write(in.kernel / "DEBIAN/control", "Package: linux\n"); },
     "Package or Version is missing", "DEBIAN/control", "dpkg-deb"},
    {"metapackage", [](ImageInputs& in, const fs::path&) { fs::remove_all(in.kernel / "lib"); },
     "not the package of one kernel: lib/modules holds 0", "/kernel", "linux-image-6.1.0-N-amd64 itself"},
    {"two_kernels", [](ImageInputs& in, const fs::path&) { fs::create_directories(in.kernel / "lib/modules/other"); },
     "lib/modules holds 2", "/kernel", "linux-image"},
    {"no_depmod", [](ImageInputs& in, const fs::path&) { fs::remove(in.kernel / "lib/modules/6.1.0-57-amd64/modules.alias"); },
     "No such file", "modules.alias", "depmod -b "},
    {"cloud_kernel",
     [](ImageInputs& in, const fs::path&) {
       test::write(in.kernel / "lib/modules/6.1.0-57-amd64/modules.dep", "kernel/virtio_net.ko:\nkernel/virtio_pci.ko:\n");
     },
     "no module \"e1000\"", "lib/modules", "full kernel"},
    {"unknown_module", [](ImageInputs& in, const fs::path&) { in.more_modules = {"nosuch"}; }, "no module \"nosuch\"",
     "lib/modules", ""},
    {"module_gone",
     [](ImageInputs& in, const fs::path&) {
       fs::remove(in.kernel / "lib/modules/6.1.0-57-amd64/kernel/drivers/net/ethernet/intel/igc/igc.ko");
     },
     "No such file", "igc.ko", "damaged"},
    {"kernel_without_efi_stub",
     [](ImageInputs& in, const fs::path&) { test::write(in.kernel / "boot/vmlinuz-6.1.0-57-amd64", "kernel"); },
     "does not begin with a DOS header", "vmlinuz", "fetch its package again"},
    {"stub_gone", [](ImageInputs& in, const fs::path&) { fs::remove_all(in.stub / "usr"); }, "No such file", "linuxx64.efi.stub",
     "systemd-boot-efi"},
    {"dynamic_agent", [](ImageInputs& in, const fs::path&) { test::write(in.agent, test::tiny_elf(true)); },
     "it is linked dynamically", "/agent", "duck-agent-static"},
    {"agent_of_another_machine",
     [](ImageInputs& in, const fs::path&) {
       std::string arm = test::tiny_elf(false);
       arm[18] = '\xb7';
       test::write(in.agent, arm);
     },
     "no program for x86-64", "/agent", "duck-agent-static"},
    {"agent_cut_off", [](ImageInputs& in, const fs::path&) { test::write(in.agent, test::tiny_elf(false).substr(0, 100)); },
     "cut off", "/agent", "duck-agent-static"},
    {"agent_is_a_script", [](ImageInputs& in, const fs::path&) { test::write(in.agent, "#!/bin/sh\n"); }, "no ELF program",
     "/agent", "duck-agent-static"},
    {"agent_is_a_folder", [](ImageInputs& in, const fs::path& folder) { in.agent = folder; }, "not a regular file", "",
     "build it"},
    {"firmware_of_others", [](ImageInputs& in, const fs::path&) { fs::remove_all(*in.firmware / "lib/firmware/rtl_nic"); },
     "no firmware of Realtek's", "rtl_nic", "firmware-realtek"},
    {"command_line_too_long", [](ImageInputs& in, const fs::path&) { in.command_line.assign(2048, 'x'); }, "longer than 2047",
     "--command-line", "shorten"},
    {"command_line_of_two", [](ImageInputs& in, const fs::path&) { in.command_line = "quiet\n"; }, "not printable",
     "--command-line", ""},
    {"loader_gone", [](ImageInputs& in, const fs::path&) { fs::remove(*in.loaders / "boot/ipxe.efi"); }, "No such file",
     "ipxe.efi", "ipxe"},
};

INSTANTIATE_TEST_SUITE_P(Inputs, BuildImageBadInput, testing::ValuesIn(kBadInputs),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(BuildImage, a_folder_that_cannot_be_written_is_named) {
  const TempFolder folder;
  const ImageInputs inputs = test::small_packages(folder.path());
  const auto manifest = build_image(inputs, inputs.agent / "image");
  ASSERT_FALSE(manifest.has_value());
  EXPECT_EQ(manifest.error().code, ErrorCode::kImageFile);
  EXPECT_THAT(manifest.error().message, HasSubstr("cannot be written"));
}

TEST(BuildImage, without_the_zstd_program_it_says_so) {
  const TempFolder folder;
  const ImageInputs inputs = test::small_packages(folder.path());
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto manifest = build_image(inputs, folder.path() / "image");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(manifest.has_value());
  EXPECT_EQ(manifest.error().code, ErrorCode::kImageFile);
  EXPECT_THAT(manifest.error().message, HasSubstr("the program does not start"));
  EXPECT_THAT(manifest.error().next, HasSubstr("apt-get install zstd"));
}

} // namespace
} // namespace ductl::image
