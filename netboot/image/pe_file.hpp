// PE32+ files (what UEFI runs): the headers, checked, and sections appended behind the last one.
//
// Pure: bytes in, bytes out; fuzzed. A checked header promises that the header tables, and every section's bytes, lie in
// the file, that no section begins below the headers' end in memory, and that addresses stay below 4 GiB.
// Fails with kImageInput.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::image {

struct PeSection {
  std::string name;               // up to 8 bytes
  std::uint32_t address = 0;      // in memory, from the image's base
  std::uint32_t memory_bytes = 0; // VirtualSize
  std::uint32_t file_offset = 0;  // PointerToRawData
  std::uint32_t file_bytes = 0;   // SizeOfRawData: memory_bytes rounded up, or less where the rest is zeros
};

struct PeHeader {
  std::uint16_t machine = 0; // 0x8664: x86-64
  std::uint32_t coff_at = 0; // where the COFF header begins, behind "PE\0\0"
  std::uint32_t optional_at = 0;
  std::uint32_t section_table_at = 0;
  std::uint32_t section_alignment = 0;
  std::uint32_t file_alignment = 0;
  std::uint32_t image_bytes = 0;  // SizeOfImage
  std::uint32_t header_bytes = 0; // SizeOfHeaders
  std::uint32_t checksum = 0;
  bool is_signed = false; // it has a certificate table, which must stay the file's end
  std::vector<PeSection> sections;

  [[nodiscard]] const PeSection* find(std::string_view name) const; // nullptr where there is none
  [[nodiscard]] std::uint32_t memory_end() const;                   // behind the section that reaches highest
};

// `place` names the file in messages.
[[nodiscard]] Expected<PeHeader> parse_pe(std::string_view file, const std::string& place);

// The section's bytes in the file, without padding.
[[nodiscard]] std::string_view section_bytes(std::string_view file, const PeSection& section);

// As the optional header's CheckSum is defined: 16-bit sum of all words but the field itself, plus the file's size.
[[nodiscard]] std::uint32_t pe_checksum(std::string_view file, const PeHeader& header);

struct NewSection {
  std::string name;
  std::string_view bytes;
};

// `file` with these sections, readable data, in this order: in memory each begins at the next multiple of 64 KiB (and of
// the file's own alignment) behind the one before, the first behind all that `file` has; in the file they stand at its
// end. Counts, sizes and checksum follow. Nothing of what was there moves, so the room for the new section headers must
// be there already: it is refused where there is none, as is a signed file or a section that is there already.
[[nodiscard]] Expected<std::string> append_sections(std::string_view file, const std::vector<NewSection>& sections,
                                                    const std::string& place);

} // namespace ductl::image
