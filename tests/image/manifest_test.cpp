#include "netboot/image/manifest.hpp"

#include "netboot/image/digest.hpp"

#include <gmock/gmock.h>

namespace ductl::image {
namespace {

using testing::HasSubstr;

Manifest sample() {
  Manifest manifest;
  manifest.parts = {{"cmdline", sha256("c")}, {"initramfs", sha256("i")}, {"stub", sha256("s")}, {"vmlinuz", sha256("v")}};
  manifest.image = image_id(manifest.parts);
  manifest.ductl_version = "0.1.0";
  manifest.ductl_revision = "0123abcde";
  manifest.kernel_release = "6.1.0-57-amd64";
  manifest.command_line = "console=tty0 \"quoted\"";
  manifest.packages = {{"kernel", {"linux-image-6.1.0-57-amd64", "6.1.192-3"}}, {"stub", {"systemd-boot-efi", "252"}}};
  manifest.modules = {"virtio_ring.ko", "virtio.ko"};
  manifest.firmware = {"rtl_nic/rtl8168h-2.fw"};
  manifest.files = {{"duck.efi", digest_of("d")}, {"initrd.zst", digest_of("z")}, {"vmlinuz", digest_of("v")}};
  manifest.loaders = {{"ipxe.efi", digest_of("l")}};
  return manifest;
}

void expect_refused(const std::string& text, const std::string& why) {
  const auto manifest = parse_manifest(text, "manifest.json");
  ASSERT_FALSE(manifest.has_value()) << "expected: " << why;
  EXPECT_EQ(manifest.error().code, ErrorCode::kImageInput);
  EXPECT_EQ(manifest.error().place, "manifest.json");
  EXPECT_THAT(manifest.error().message, HasSubstr(why));
  EXPECT_THAT(manifest.error().next, HasSubstr("duck-image"));
}

std::string sample_with(const std::string& from, const std::string& to) {
  std::string text = manifest_text(sample());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Digest, is_that_of_sha256sum) { // printf abc | sha256sum
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(ImageId, is_the_digest_of_lines_as_sha256sum_prints_them) {
  EXPECT_EQ(image_id({{"vmlinuz", "22"}, {"cmdline", "11"}}), sha256("11  cmdline\n22  vmlinuz\n"));
}

TEST(Manifest, comes_back_from_its_text) {
  const auto manifest = parse_manifest(manifest_text(sample()), "manifest.json");
  ASSERT_TRUE(manifest) << manifest.error().text();
  EXPECT_EQ(*manifest, sample());
  EXPECT_EQ(manifest_text(*manifest), manifest_text(sample()));
}

TEST(Manifest, what_is_none_is_refused) {
  expect_refused("", "parse error");
  expect_refused("[]", "no manifest of an image");
  expect_refused(sample_with("\"format\": 1", "\"format\": 2"), "its format is 2, this program reads 1");
  expect_refused(sample_with("\"kernel_release\"", "\"kernel\""), "'kernel_release' not found");
  expect_refused(sample_with("\"modules\": [", "\"modules\": [3,"), "must be string");
  expect_refused(sample_with("\"bytes\": 1", "\"bytes\": \"1\""), "must be number");
  expect_refused(sample_with(sha256("l"), "00"), "64 hexadecimal digits");
  expect_refused(sample_with(sha256("d"), std::string(64, 'G')), "64 hexadecimal digits");
  expect_refused(sample_with(sha256("i"), sha256("another")), "its id is not that of its parts");
}

} // namespace
} // namespace ductl::image
