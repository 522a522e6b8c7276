// PE files: whatever the bytes, either an error or sections that lie in the file; and what is appended comes back whole.
#include "netboot/image/pe_file.hpp"

#include <algorithm>
#include <cstdlib>

using namespace ductl::image;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto header = parse_pe(file, "fuzz");
  if (!header) return 0;
  for (const PeSection& section : header->sections)
    if (section_bytes(file, section).size() != std::min(section.file_bytes, section.memory_bytes)) std::abort();
  const auto longer = append_sections(file, {{".fuzz1", "one"}, {".fuzz2", file}}, "fuzz");
  if (!longer) return 0;
  const auto again = parse_pe(*longer, "fuzz");
  if (!again || again->sections.size() != header->sections.size() + 2) std::abort();
  if (section_bytes(*longer, *again->find(".fuzz1")) != "one") std::abort();
  if (section_bytes(*longer, *again->find(".fuzz2")) != file) std::abort();
  if (again->find(".fuzz1")->address < header->memory_end()) std::abort();
  return 0;
}
