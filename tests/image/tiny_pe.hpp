// PE32+ files of a few hundred bytes, built field by field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ductl::image::test {

struct TinySection {
  std::string name;
  std::uint32_t address = 0;
  std::string bytes;
};

struct TinyPe {
  std::uint16_t machine = 0x8664;
  std::uint32_t pe_at = 0x80;
  std::uint32_t header_bytes = 0x400;
  std::uint32_t section_alignment = 0x1000, file_alignment = 0x200;
  std::uint64_t certificates = 0; // entry 4 of the data directory
  std::vector<TinySection> sections{{".text", 0x1000, "code of the stub"}, {".data", 0x2000, std::string(700, 'd')}};
};

// Where the fields lie that tests spoil.
inline constexpr std::size_t kOptionalBytesAt = 16, kDirectoryCountAt = 20 + 108; // from the COFF header
[[nodiscard]] std::string tiny_pe(const TinyPe& pe = {});

void store16(std::string& bytes, std::size_t at, std::uint16_t value);
void store32(std::string& bytes, std::size_t at, std::uint32_t value);

} // namespace ductl::image::test
