#include "tests/image/tiny_pe.hpp"

#include <algorithm>

namespace ductl::image::test {
namespace {

constexpr std::uint16_t kDirectories = 16, kOptionalBytes = 112 + 8 * kDirectories;

std::uint32_t round_up(std::size_t value, std::uint32_t step) {
  return static_cast<std::uint32_t>((value + step - 1) / step * step);
}

void store_header(std::string& out, const TinyPe& pe, std::uint32_t image_bytes) {
  out.replace(0, 2, "MZ");
  store32(out, 0x3c, pe.pe_at);
  out.replace(pe.pe_at, 4, std::string("PE\0\0", 4));
  const std::size_t coff = pe.pe_at + 4, optional = coff + 20;
  store16(out, coff, pe.machine);
  store16(out, coff + 2, static_cast<std::uint16_t>(pe.sections.size()));
  store16(out, coff + 16, kOptionalBytes);
  store16(out, optional, 0x20b);
  store32(out, optional + 8, 0x1000); // initialised bytes, as they were
  store32(out, optional + 32, pe.section_alignment);
  store32(out, optional + 36, pe.file_alignment);
  store32(out, optional + 56, image_bytes);
  store32(out, optional + 60, pe.header_bytes);
  store32(out, optional + 64, 0x5a5a5a5a);
  store32(out, optional + 108, kDirectories);
  store32(out, optional + 112 + 8 * 4, static_cast<std::uint32_t>(pe.certificates));
}

} // namespace

void store16(std::string& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<char>(value & 0xff);
  bytes[at + 1] = static_cast<char>(value >> 8);
}

void store32(std::string& bytes, std::size_t at, std::uint32_t value) {
  store16(bytes, at, static_cast<std::uint16_t>(value & 0xffff));
  store16(bytes, at + 2, static_cast<std::uint16_t>(value >> 16));
}

std::string tiny_pe(const TinyPe& pe) {
  std::string out(pe.header_bytes, '\0');
  std::size_t row = pe.pe_at + 4 + 20 + kOptionalBytes;
  std::uint32_t image_bytes = pe.header_bytes;
  for (const TinySection& section : pe.sections) {
    const std::uint32_t file_bytes = round_up(section.bytes.size(), pe.file_alignment);
    std::copy(section.name.begin(), section.name.end(), out.begin() + static_cast<std::ptrdiff_t>(row));
    store32(out, row + 8, static_cast<std::uint32_t>(section.bytes.size()));
    store32(out, row + 12, section.address);
    store32(out, row + 16, file_bytes);
    store32(out, row + 20, static_cast<std::uint32_t>(out.size()));
    row += 40;
    out += section.bytes;
    out.resize(round_up(out.size(), pe.file_alignment), '\0');
    image_bytes = section.address + round_up(section.bytes.size(), pe.section_alignment);
  }
  store_header(out, pe, image_bytes);
  return out;
}

} // namespace ductl::image::test
