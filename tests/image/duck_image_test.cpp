// The target duck-image, whole: fetches Debian's packages (once a build folder), links the static agent, makes the image.
// The only test here that needs the network, on its first run.
#include "netboot/image/digest.hpp"
#include "netboot/image/initramfs.hpp"
#include "netboot/image/manifest.hpp"
#include "netboot/image/pe_file.hpp"
#include "netboot/image/static_program.hpp"
#include "tests/image/cpio_reader.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <map>
#include <sstream>

namespace ductl::image {
namespace {

namespace fs = std::filesystem;
using ductl::test::run_program;
using ductl::test::text_of;

const fs::path kBuild = DUCTL_BUILD_DIR;
const fs::path kImage = kBuild / "netboot/image", kPackages = kBuild / "netboot/packages";
const fs::path kStub = kPackages / "stub/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

class DuckImage : public testing::Test {
protected:
  static void SetUpTestSuite() {
    const auto built =
        run_program({DUCTL_CMAKE, "--build", kBuild.string(), "--target", "duck-image"}, {{}, {}, std::chrono::seconds(900), {}});
    ASSERT_EQ(built.status, 0) << built.out << built.err;
  }
  void SetUp() override {
    auto read = parse_manifest(text_of(kImage / "manifest.json"), "manifest.json");
    ASSERT_TRUE(read) << read.error().text();
    manifest_ = std::move(*read);
  }
  Manifest manifest_;
};

TEST_F(DuckImage, files_are_those_of_the_manifest) {
  for (const auto& files : {manifest_.files, manifest_.loaders}) {
    EXPECT_EQ(files.size(), 3u);
    for (const auto& [name, file] : files) EXPECT_EQ(digest_of(text_of(kImage / name)), file) << name;
  }
  EXPECT_EQ(manifest_.packages.at("kernel").name, "linux-image-" + manifest_.kernel_release);
  EXPECT_EQ(text_of(kPackages / "fetched"), manifest_.packages.at("kernel").name + "\n");
}

TEST_F(DuckImage, init_is_the_static_agent_and_it_runs) {
  const std::string agent = text_of(fs::path(DUCTL_BIN_DIR) / "duck-agent-static");
  const auto good = check_static_program(agent, "duck-agent-static");
  ASSERT_TRUE(good) << good.error().text();
  EXPECT_EQ(run_program({"duck-agent-static", "--version"}).out, run_program({"duck-agent", "--version"}).out);
  const auto unpacked = run_program({"/usr/bin/env", "zstd", "-dc", (kImage / "initrd.zst").string()});
  ASSERT_EQ(unpacked.status, 0) << unpacked.err;
  std::map<std::string, std::string> files;
  for (CpioEntry& entry : test::cpio_entries(unpacked.out)) files[entry.path] = std::move(entry.data);
  EXPECT_TRUE(files.at("init") == agent);
  EXPECT_EQ(files.at("image.id"), manifest_.image + "\n");
  for (const std::string& module : manifest_.modules)
    EXPECT_EQ(files.at("modules/" + module).substr(0, 4), "\x7f"
                                                          "ELF")
        << module;
}

// Debian's kernel as it is today, not the one of the fixtures.
// Else another clone's image would have another id.
TEST_F(DuckImage, the_agent_names_no_folder_that_it_was_made_in) {
  const std::string agent = text_of(fs::path(DUCTL_BIN_DIR) / "duck-agent-static");
  for (const fs::path& folder : {fs::path(DUCTL_SOURCE_DIR), kBuild})
    EXPECT_EQ(agent.find(folder.string()), std::string::npos) << folder;
}

TEST_F(DuckImage, modules_load_in_the_order_of_modprobe) {
  const auto kernel = KernelPackage::open(kPackages / "kernel");
  ASSERT_TRUE(kernel) << kernel.error().text();
  for (const std::string& name : network_modules()) {
    const auto asked = run_program({"/usr/bin/env", "PATH=/usr/sbin:/sbin", "modprobe", "-S", kernel->release, "-d",
                                    kernel->package.folder.string(), "--show-depends", name});
    ASSERT_EQ(asked.status, 0) << asked.err;
    std::vector<std::string> expected; // "insmod /.../virtio.ko " a line, some more than once
    std::istringstream lines(asked.out);
    for (std::string insmod, file; lines >> insmod >> file;)
      if (const std::string flat(flat_name(file)); std::find(expected.begin(), expected.end(), flat) == expected.end())
        expected.push_back(flat);
    std::vector<std::string> order;
    const auto files = kernel->index.load_order({name});
    ASSERT_TRUE(files) << files.error().text();
    for (const std::string& file : *files) order.emplace_back(flat_name(file));
    EXPECT_EQ(order, expected) << name;
  }
}

TEST_F(DuckImage, the_uki_is_the_stub_and_four_sections_at_its_end) {
  const std::string stub = text_of(kStub), uki = text_of(kImage / "duck.efi");
  const auto before = parse_pe(stub, "stub"), after = parse_pe(uki, "duck.efi");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(pe_checksum(stub, *before), before->checksum); // our sum is that of systemd's linker
  ASSERT_EQ(after->sections.size(), before->sections.size() + 4);
  EXPECT_TRUE(section_bytes(uki, *after->find(".linux")) == text_of(kImage / "vmlinuz"));
  EXPECT_TRUE(section_bytes(uki, *after->find(".initrd")) == text_of(kImage / "initrd.zst"));
  EXPECT_EQ(section_bytes(uki, *after->find(".cmdline")), manifest_.command_line);
}

TEST_F(DuckImage, made_once_more_it_is_the_same) {
  const ductl::test::TempFolder folder;
  std::vector<std::string> words{"make-duck-image", "--out", folder.path().string(), "--agent",
                                 std::string(DUCTL_BIN_DIR) + "/duck-agent-static"};
  for (const char* package : {"kernel", "stub", "loaders", "firmware"})
    if (fs::exists(kPackages / package)) words.insert(words.end(), {std::string("--") + package, (kPackages / package).string()});
  const auto made = run_program(words, {{}, {}, std::chrono::seconds(120), {}});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(text_of(folder.path() / "manifest.json"), text_of(kImage / "manifest.json"));
}

TEST(MakeDuckImage, says_what_its_command_line_lacks) {
  const auto nothing = run_program({"make-duck-image"});
  EXPECT_EQ(nothing.status, 64);
  EXPECT_THAT(nothing.err, testing::HasSubstr("--kernel is required"));
  const auto missing = run_program({"make-duck-image", "--kernel", "/nowhere", "--stub", "/s", "--agent", "/a", "--out", "/o"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, testing::HasSubstr("error[D0621]"));
  EXPECT_THAT(missing.err, testing::HasSubstr("/nowhere/DEBIAN/control"));
}

} // namespace
} // namespace ductl::image
