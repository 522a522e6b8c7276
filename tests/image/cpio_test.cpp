#include "netboot/image/cpio.hpp"

#include "tests/image/cpio_reader.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"

#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <random>

namespace ductl::image {
namespace {

using testing::HasSubstr;

std::string archive_of(std::vector<CpioEntry> entries) {
  auto archive = write_cpio(std::move(entries));
  EXPECT_TRUE(archive) << archive.error().text();
  return archive.value_or("");
}

void expect_refused(std::vector<CpioEntry> entries, const std::string& name, const std::string& why) {
  const auto archive = write_cpio(std::move(entries));
  ASSERT_FALSE(archive.has_value()) << "expected: " << why;
  EXPECT_EQ(archive.error().code, ErrorCode::kImageInput);
  EXPECT_THAT(archive.error().message, HasSubstr("\"" + name + "\""));
  EXPECT_THAT(archive.error().message, HasSubstr(why));
}

std::vector<CpioEntry> small_tree() {
  return {cpio_program("init", "#!"), cpio_folder("dev"), cpio_character_device("dev/console", 5, 1),
          cpio_symlink("bin", "usr/bin"), cpio_file("dev-list", "12345")};
}

TEST(Cpio, an_archive_of_one_file_has_these_bytes) {
  const std::string expected = "070701"
                               "00000001" // inode
                               "000081a4" // regular, 0644
                               "00000000" // user
                               "00000000" // group
                               "00000001" // links
                               "00000000" // time
                               "00000005" // bytes
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000002" // name with its NUL
                               "00000000"
                               "a" +
                               std::string("\0", 1) + "hello" + std::string("\0\0\0", 3) +
                               "070701"
                               "00000000000000000000000000000000000000010000000000000000"
                               "000000000000000000000000000000000000000b00000000"
                               "TRAILER!!!" +
                               std::string("\0\0\0\0", 4);
  EXPECT_EQ(archive_of({cpio_file("a", "hello")}), expected);
}

TEST(Cpio, what_went_in_comes_out_sorted_owned_by_root_and_without_a_time) {
  const std::string archive = archive_of(small_tree());
  EXPECT_EQ(archive.size() % 4, 0u);
  std::vector<std::string> names;
  std::uint32_t inode = 0;
  for (const test::ReadEntry& read : test::read_cpio(archive)) {
    names.push_back(read.entry.path);
    EXPECT_EQ(read.inode, ++inode);
    EXPECT_EQ(read.user + read.group + read.time, 0u);
    EXPECT_EQ(read.links, read.entry.path == "dev" ? 2u : 1u);
  }
  EXPECT_THAT(names, testing::ElementsAre("bin", "dev", "dev-list", "dev/console", "init"));
  EXPECT_THAT(test::cpio_entries(archive), testing::UnorderedElementsAreArray(small_tree()));
}

TEST(Cpio, any_tree_in_any_order_comes_back_and_gives_the_same_bytes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<CpioEntry> entries;
    std::vector<std::string> folders{""};
    for (auto i = random() % 40; i-- > 0;) {
      const std::string path = folders[random() % folders.size()] + std::string(1 + random() % 9, 'a') + std::to_string(i);
      std::string data(random() % 33, '\0');
      for (char& byte : data) byte = static_cast<char>(random());
      switch (random() % 3) {
      case 0:
        entries.push_back(cpio_folder(path));
        folders.push_back(path + "/");
        break;
      case 1: entries.push_back(cpio_file(path, data)); break;
      default: entries.push_back(cpio_symlink(path, "to" + std::to_string(seed))); break;
      }
    }
    const std::string archive = archive_of(entries);
    EXPECT_THAT(test::cpio_entries(archive), testing::UnorderedElementsAreArray(entries));
    std::shuffle(entries.begin(), entries.end(), random);
    EXPECT_EQ(archive_of(entries), archive);
  }
}

TEST(Cpio, what_the_kernel_would_drop_without_a_word_is_refused) {
  expect_refused({cpio_file("dev/x", "")}, "dev/x", "its folder is not in the archive");
  expect_refused({cpio_file("dev", ""), cpio_file("dev/x", "")}, "dev/x", "its folder is not in the archive");
  expect_refused({cpio_file(std::string(4092, 'x'), "")}, std::string(4092, 'x'), "its path has 4092 bytes");
  expect_refused({cpio_symlink("x", std::string(4092, 'x'))}, "x", "its target has 4092 bytes");
  expect_refused({cpio_symlink("x", "")}, "x", "its target has 0 bytes");
}

TEST(Cpio, what_is_no_tree_is_refused) {
  for (const char* path : {"", "/init", "a//b", "./a", "a/..", "a/"}) expect_refused({cpio_file(path, "")}, path, "plain names");
  expect_refused({cpio_file(std::string("a\0b", 3), "")}, std::string("a\0b", 3), "plain names");
  expect_refused({cpio_file("TRAILER!!!", "")}, "TRAILER!!!", "ends an archive");
  expect_refused({cpio_file("a", "1"), cpio_file("a", "2")}, "a", "there twice");
  expect_refused({{"a", 0644, "", 0, 0}}, "a", "mode 644 is no file");
  expect_refused({{"a", 040755, "x", 0, 0}}, "a", "only files and symlinks have contents");
  expect_refused({{"a", 0100644, "x", 5, 1}}, "a", "only devices have device numbers");
}

// The tools that people look into an image with. They list what they understood of type, owner, device and time.
class CpioTool : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(CpioTool, lists_the_archive_as_it_was_meant) {
  const auto listed = ductl::test::run_program(
      [] {
        std::vector<std::string> words{"/usr/bin/env", "TZ=UTC"};
        words.insert(words.end(), GetParam().begin(), GetParam().end());
        return words;
      }(),
      {{}, archive_of(small_tree()), std::chrono::seconds(20), {}});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_THAT(listed.out, testing::ContainsRegex("drwxr-xr-x .*2 .*0 +0 .*Jan +1 +1970 .*dev\n"));
  EXPECT_THAT(listed.out, testing::ContainsRegex("crw------- .* 5, *1 .*dev/console\n"));
  EXPECT_THAT(listed.out, testing::ContainsRegex("lrwxrwxrwx .*bin -> usr/bin\n"));
  EXPECT_THAT(listed.out, testing::ContainsRegex("-rwxr-xr-x .* 2 .*init\n"));
}

INSTANTIATE_TEST_SUITE_P(Programs, CpioTool,
                         testing::Values(std::vector<std::string>{"cpio", "-tv", "--numeric-uid-gid"},
                                         std::vector<std::string>{"bsdcpio", "-tvn"}),
                         [](const auto& tool) { return tool.param.front(); });

} // namespace
} // namespace ductl::image
