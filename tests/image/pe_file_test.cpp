#include "netboot/image/pe_file.hpp"

#include "netboot/image/uki.hpp"
#include "tests/image/tiny_pe.hpp"

#include <gmock/gmock.h>
#include <random>

namespace ductl::image {
namespace {

using test::store16;
using test::store32;
using test::tiny_pe;
using test::TinyPe;
using testing::HasSubstr;

constexpr std::size_t kCoff = 0x84, kOptional = kCoff + 20, kRows = kOptional + 240, kRow = 40;

PeHeader parsed(const std::string& file) {
  auto header = parse_pe(file, "x.efi");
  EXPECT_TRUE(header) << header.error().text();
  return header.value_or(PeHeader());
}

void expect_refused(const Expected<std::string>& result, const std::string& why) {
  ASSERT_FALSE(result.has_value()) << "expected: " << why;
  EXPECT_EQ(result.error().code, ErrorCode::kImageInput);
  EXPECT_EQ(result.error().place, "x.efi");
  EXPECT_THAT(result.error().message, HasSubstr(why));
  EXPECT_FALSE(result.error().next.empty());
}

void expect_bad(const std::string& file, const std::string& why) {
  expect_refused(parse_pe(file, "x.efi").map([](const PeHeader&) { return std::string(); }), why);
}

std::string with32(std::size_t at, std::uint32_t value) {
  std::string file = tiny_pe();
  store32(file, at, value);
  return file;
}

TEST(PeFile, headers_and_sections_are_read) {
  const std::string file = tiny_pe();
  const PeHeader header = parsed(file);
  EXPECT_EQ(header.machine, 0x8664);
  EXPECT_EQ(header.header_bytes, 0x400u);
  EXPECT_EQ(header.image_bytes, 0x3000u);
  EXPECT_FALSE(header.is_signed);
  ASSERT_EQ(header.sections.size(), 2u);
  EXPECT_EQ(header.sections[1].name, ".data");
  EXPECT_EQ(header.sections[1].address, 0x2000u);
  EXPECT_EQ(section_bytes(file, header.sections[0]), "code of the stub");
  EXPECT_EQ(section_bytes(file, header.sections[1]), std::string(700, 'd'));
  EXPECT_EQ(header.find(".none"), nullptr);
}

TEST(PeFile, a_name_of_eight_letters_has_no_end_in_the_header) {
  TinyPe pe;
  pe.sections[0].name = ".longish";
  EXPECT_EQ(parsed(tiny_pe(pe)).sections[0].name, ".longish");
}

TEST(PeFile, what_is_no_whole_efi_program_is_refused) {
  expect_bad("", "DOS header");
  expect_bad(std::string(0x40, 'x'), "DOS header");
  expect_bad(with32(0x3c, 0xfffffff0), "no PE header at byte 4294967280");
  expect_bad(with32(0x3c, 0x81), "no PE header at byte 129");
  expect_bad(with32(kOptional, 0x10b), "not PE32+");
  std::string file = tiny_pe();
  store16(file, kCoff + test::kOptionalBytesAt, 111);
  expect_bad(file, "optional header of 111 bytes");
  store16(file, kCoff + test::kOptionalBytesAt, 0xffff);
  expect_bad(file, "reaches past the end");
  expect_bad(with32(kCoff + test::kDirectoryCountAt, 17), "17 data directories");
  for (const std::uint32_t alignment : {0u, 3u, 0x20000u}) expect_bad(with32(kOptional + 36, alignment), "file alignment");
  for (const std::uint32_t alignment : {0u, 3u, 0x2000000u}) expect_bad(with32(kOptional + 32, alignment), "section alignment");
  expect_bad(with32(kOptional + 60, 0x10000), "its headers end at byte 65536");
  expect_bad(with32(kOptional + 60, 0x100), "its headers end at byte 256");
}

TEST(PeFile, sections_that_lie_where_they_cannot_are_refused) {
  expect_bad(with32(kRows + kRow + 16, 0x10000), "\".data\" reaches past the end of the file");
  expect_bad(with32(kRows + 20, 0xffffff00), "\".text\" reaches past the end of the file");
  expect_bad(with32(kRows + 12, 0x3ff), "\".text\" would lie over the headers");
  expect_bad(with32(kRows + 8, 0xffffff00), "\".text\" reaches past 4 GiB");
}

TEST(AppendSections, puts_them_behind_and_leaves_the_rest_alone) {
  const std::string before = tiny_pe();
  const std::string kernel(100'000, 'k');
  const auto after = append_sections(before, {{".initrd", "archive"}, {".linux", kernel}, {".empty", ""}}, "x.efi");
  ASSERT_TRUE(after) << after.error().text();
  const PeHeader header = parsed(*after);
  ASSERT_EQ(header.sections.size(), 5u);
  EXPECT_EQ(header.sections[2].address, 0x10000u); // 0x22bc, up to 64 KiB
  EXPECT_EQ(header.sections[3].address, 0x20000u);
  EXPECT_EQ(header.sections[4].address, 0x40000u); // 0x20000 + 100352, up to 64 KiB
  EXPECT_EQ(section_bytes(*after, *header.find(".initrd")), "archive");
  EXPECT_EQ(section_bytes(*after, *header.find(".linux")), kernel);
  EXPECT_EQ(section_bytes(*after, *header.find(".empty")), "");
  EXPECT_EQ(header.find(".initrd")->memory_bytes, 7u);
  EXPECT_EQ(header.image_bytes, 0x40000u);
  EXPECT_EQ(header.checksum, pe_checksum(*after, header));
  EXPECT_EQ(after->size() % 0x200, 0u);
  EXPECT_EQ(after->substr(0x400, before.size() - 0x400), before.substr(0x400));
  std::string fields = *after; // all that may differ in the headers: put back
  fields.resize(0x400);
  store16(fields, kCoff + 2, 2);
  store32(fields, kOptional + 8, 0x1000);
  store32(fields, kOptional + 56, 0x3000);
  store32(fields, kOptional + 64, 0x5a5a5a5a);
  fields.replace(kRows + 2 * kRow, 3 * kRow, std::string(3 * kRow, '\0'));
  EXPECT_EQ(fields, before.substr(0, 0x400));
}

TEST(AppendSections, any_sections_come_back_aligned_and_apart) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    TinyPe pe;
    pe.section_alignment = 0x200u << random() % 12; // up to 1 MiB
    pe.sections[0].address = 0x1000 + random() % 0x100000;
    pe.sections[1].address = pe.sections[0].address + 0x1000;
    std::vector<std::string> bytes(1 + random() % 7);
    std::vector<NewSection> wanted;
    for (std::string& b : bytes) {
      b.assign(random() % 200'000, static_cast<char>(random()));
      wanted.push_back({".s" + std::to_string(wanted.size()), b});
    }
    const std::string before = tiny_pe(pe);
    const auto after = append_sections(before, wanted, "x.efi");
    ASSERT_TRUE(after) << after.error().text();
    const PeHeader header = parsed(*after);
    std::uint64_t end = parsed(before).memory_end();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const PeSection& section = header.sections[2 + i];
      EXPECT_EQ(section_bytes(*after, section), bytes[i]);
      EXPECT_GE(section.address, end);
      EXPECT_EQ(section.address % (64 << 10), 0u);
      EXPECT_EQ(section.address % pe.section_alignment, 0u);
      end = section.address + section.memory_bytes;
    }
    EXPECT_GE(header.image_bytes, end);
    EXPECT_EQ(header.image_bytes % pe.section_alignment, 0u);
  }
}

TEST(AppendSections, needs_room_in_the_headers) {
  // 1024 bytes of headers, 392 of them before the rows, 80 for two rows: room for 13 more.
  std::vector<NewSection> sections;
  for (int i = 0; i < 13; ++i) sections.push_back({".n" + std::to_string(i), "x"});
  EXPECT_TRUE(append_sections(tiny_pe(), sections, "x.efi"));
  sections.push_back({".last", "x"});
  expect_refused(append_sections(tiny_pe(), sections, "x.efi"), "no room for 14 more sections");
  std::string file = tiny_pe();
  file[kRows + 2 * kRow + 3] = 'x';
  expect_refused(append_sections(file, {{".new", "x"}}, "x.efi"), "something lies behind its section table");
}

TEST(AppendSections, refuses_what_would_not_start) {
  expect_refused(append_sections(tiny_pe(), {{".text", "x"}}, "x.efi"), "a section \".text\" already");
  expect_refused(append_sections(tiny_pe(), {{"", "x"}}, "x.efi"), "\"\" is no section's name");
  expect_refused(append_sections(tiny_pe(), {{".too.long", "x"}}, "x.efi"), "\".too.long\" is no section's name");
  TinyPe pe;
  pe.certificates = 0x1000;
  expect_refused(append_sections(tiny_pe(pe), {{".new", "x"}}, "x.efi"), "it is signed");
  expect_refused(append_sections("MZ", {{".new", "x"}}, "x.efi"), "DOS header");
  TinyPe high;
  high.sections[1].address = 0xfffe0000;
  expect_refused(append_sections(tiny_pe(high), {{".new", "x"}}, "x.efi"), "larger than 4 GiB");
}

TEST(Uki, holds_its_four_parts_in_the_order_of_a_boot) {
  const std::string kernel = tiny_pe();
  const auto uki = assemble_uki(tiny_pe(), {"ID=duck\n", "console=tty0", "archive", kernel}, "stub", "vmlinuz");
  ASSERT_TRUE(uki) << uki.error().text();
  const PeHeader header = parsed(*uki);
  ASSERT_EQ(header.sections.size(), 6u);
  const std::pair<const char*, std::string> parts[] = {
      {".osrel", "ID=duck\n"}, {".cmdline", "console=tty0"}, {".initrd", "archive"}, {".linux", kernel}};
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    EXPECT_EQ(header.sections[2 + i].name, parts[i].first);
    EXPECT_EQ(section_bytes(*uki, header.sections[2 + i]), parts[i].second);
  }
}

TEST(Uki, stub_and_kernel_must_be_for_this_machine) {
  TinyPe arm;
  arm.machine = 0xaa64;
  const auto stub = assemble_uki(tiny_pe(arm), {"", "", "", tiny_pe()}, "the stub", "the kernel");
  ASSERT_FALSE(stub.has_value());
  EXPECT_EQ(stub.error().place, "the stub");
  EXPECT_THAT(stub.error().message, HasSubstr("machine 0xaa64"));
  const std::string no_stub = "a kernel without an EFI stub";
  const auto kernel = assemble_uki(tiny_pe(), {"", "", "", no_stub}, "the stub", "the kernel");
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().place, "the kernel");
}

} // namespace
} // namespace ductl::image
