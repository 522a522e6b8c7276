#include "netboot/image/pe_file.hpp"

#include <algorithm>
#include <concepts>
#include <fmt/format.h>
#include <utility>

namespace ductl::image {
namespace {

constexpr std::uint32_t kPeOffsetAt = 0x3c; // in the DOS header
constexpr std::uint32_t kDosHeaderBytes = 0x40, kSignatureBytes = 4, kCoffBytes = 20, kSectionHeaderBytes = 40;
constexpr std::uint32_t kNameBytes = 8;
// In the COFF header.
constexpr std::uint32_t kMachineAt = 0, kSectionCountAt = 2, kOptionalBytesAt = 16;
// In the optional header of PE32+.
constexpr std::uint32_t kMagicAt = 0, kInitializedBytesAt = 8, kSectionAlignmentAt = 32, kFileAlignmentAt = 36,
                        kImageBytesAt = 56, kHeaderBytesAt = 60, kChecksumAt = 64, kDirectoryCountAt = 108, kDirectoriesAt = 112;
constexpr std::uint32_t kDirectoryBytes = 8, kCertificateDirectory = 4;
constexpr std::uint16_t kPe32Plus = 0x20b;
// In a section header.
constexpr std::uint32_t kMemoryBytesAt = 8, kAddressAt = 12, kFileBytesAt = 16, kFileOffsetAt = 20, kCharacteristicsAt = 36;
constexpr std::uint32_t kReadableData = 0x40000040; // IMAGE_SCN_MEM_READ | IMAGE_SCN_CNT_INITIALIZED_DATA
constexpr std::uint32_t kSectionStep = 64 << 10;
constexpr std::uint32_t kFileAlignmentMax = 64 << 10; // by the format
constexpr std::uint32_t kSectionAlignmentMax = 16 << 20;

template <std::unsigned_integral T> T load(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | static_cast<unsigned char>(bytes[at + i]));
  return value;
}

template <std::unsigned_integral T> void store(std::string& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }

tl::unexpected<Error> bad(const std::string& place, std::string why) {
  return fail(ErrorCode::kImageInput, "not an EFI program that can be used: " + std::move(why), place,
              "the file is damaged or another one than meant: fetch its package again");
}

Expected<PeHeader> read_headers(std::string_view file, const std::string& place) {
  if (file.size() < kDosHeaderBytes || !file.starts_with("MZ")) return bad(place, "it does not begin with a DOS header");
  PeHeader header;
  const std::uint64_t pe_at = load<std::uint32_t>(file, kPeOffsetAt);
  const std::uint64_t optional_at = pe_at + kSignatureBytes + kCoffBytes;
  if (optional_at > file.size() || file.substr(pe_at, kSignatureBytes) != std::string_view("PE\0\0", 4))
    return bad(place, fmt::format("no PE header at byte {}", pe_at));
  header.coff_at = static_cast<std::uint32_t>(pe_at + kSignatureBytes);
  header.optional_at = static_cast<std::uint32_t>(optional_at);
  header.machine = load<std::uint16_t>(file, header.coff_at + kMachineAt);
  const std::uint32_t optional_bytes = load<std::uint16_t>(file, header.coff_at + kOptionalBytesAt);
  if (optional_bytes < kDirectoriesAt || optional_at + optional_bytes > file.size())
    return bad(place, fmt::format("its optional header of {} bytes is too short or reaches past the end", optional_bytes));
  if (load<std::uint16_t>(file, optional_at + kMagicAt) != kPe32Plus) return bad(place, "it is not PE32+, the 64-bit form");
  header.section_table_at = header.optional_at + optional_bytes;
  header.section_alignment = load<std::uint32_t>(file, optional_at + kSectionAlignmentAt);
  header.file_alignment = load<std::uint32_t>(file, optional_at + kFileAlignmentAt);
  header.image_bytes = load<std::uint32_t>(file, optional_at + kImageBytesAt);
  header.header_bytes = load<std::uint32_t>(file, optional_at + kHeaderBytesAt);
  header.checksum = load<std::uint32_t>(file, optional_at + kChecksumAt);
  const std::uint32_t directories = load<std::uint32_t>(file, optional_at + kDirectoryCountAt);
  if (directories > (optional_bytes - kDirectoriesAt) / kDirectoryBytes)
    return bad(place, fmt::format("{} data directories do not fit in its optional header", directories));
  if (directories > kCertificateDirectory)
    header.is_signed = load<std::uint64_t>(file, optional_at + kDirectoriesAt + kCertificateDirectory * kDirectoryBytes) != 0;
  return header;
}

bool is_power_of_two(std::uint32_t value) { return value != 0 && (value & (value - 1)) == 0; }

Expected<void> check_sizes(const PeHeader& header, std::uint64_t table_end, std::string_view file, const std::string& place) {
  if (!is_power_of_two(header.file_alignment) || header.file_alignment > kFileAlignmentMax)
    return bad(place, fmt::format("file alignment {} is no power of two up to 64 KiB", header.file_alignment));
  if (!is_power_of_two(header.section_alignment) || header.section_alignment > kSectionAlignmentMax)
    return bad(place, fmt::format("section alignment {} is no power of two up to 16 MiB", header.section_alignment));
  if (header.header_bytes > file.size() || header.header_bytes < table_end)
    return bad(place, fmt::format("its headers end at byte {}, its section table at {}, the file at {}", header.header_bytes,
                                  table_end, file.size()));
  return {};
}

Expected<PeSection> read_section(std::string_view file, std::size_t at, const PeHeader& header, const std::string& place) {
  PeSection section;
  const std::string_view name = file.substr(at, kNameBytes);
  section.name = name.substr(0, name.find('\0'));
  section.memory_bytes = load<std::uint32_t>(file, at + kMemoryBytesAt);
  section.address = load<std::uint32_t>(file, at + kAddressAt);
  section.file_bytes = load<std::uint32_t>(file, at + kFileBytesAt);
  section.file_offset = load<std::uint32_t>(file, at + kFileOffsetAt);
  if (section.file_bytes != 0 && std::uint64_t{section.file_offset} + section.file_bytes > file.size())
    return bad(place, fmt::format("section \"{}\" reaches past the end of the file", section.name));
  if (section.address < header.header_bytes)
    return bad(place, fmt::format("section \"{}\" would lie over the headers in memory", section.name));
  if (std::uint64_t{section.address} + std::max(section.memory_bytes, section.file_bytes) > UINT32_MAX)
    return bad(place, fmt::format("section \"{}\" reaches past 4 GiB in memory", section.name));
  return section;
}

Expected<void> check_append(std::string_view file, const PeHeader& header, const std::vector<NewSection>& sections,
                            const std::string& place) {
  if (header.is_signed) return bad(place, "it is signed, and more sections would break the signature");
  const std::uint64_t table_end = header.section_table_at + header.sections.size() * kSectionHeaderBytes;
  std::uint64_t room_end = header.header_bytes;
  for (const PeSection& section : header.sections)
    if (section.file_bytes != 0) room_end = std::min<std::uint64_t>(room_end, section.file_offset);
  const std::uint64_t wanted = sections.size() * kSectionHeaderBytes;
  if (table_end + wanted > room_end || header.sections.size() + sections.size() > UINT16_MAX)
    return bad(place, fmt::format("its headers have no room for {} more sections", sections.size()));
  const std::string_view room = file.substr(table_end, wanted);
  if (room.find_first_not_of('\0') != std::string_view::npos)
    return bad(place, "something lies behind its section table, where new sections would be named");
  for (const NewSection& section : sections) {
    if (section.name.empty() || section.name.size() > kNameBytes)
      return bad(place, fmt::format("\"{}\" is no section's name", section.name));
    if (header.find(section.name) != nullptr) return bad(place, fmt::format("it has a section \"{}\" already", section.name));
  }
  return {};
}

void store_section(std::string& out, std::size_t at, const PeSection& section) {
  std::copy(section.name.begin(), section.name.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
  store(out, at + kMemoryBytesAt, section.memory_bytes);
  store(out, at + kAddressAt, section.address);
  store(out, at + kFileBytesAt, section.file_bytes);
  store(out, at + kFileOffsetAt, section.file_offset);
  store(out, at + kCharacteristicsAt, kReadableData);
}

void store_totals(std::string& out, const PeHeader& header, std::size_t sections, std::uint32_t file_bytes,
                  std::uint32_t memory_end) {
  store(out, header.coff_at + kSectionCountAt, static_cast<std::uint16_t>(sections));
  const std::size_t initialized_at = header.optional_at + kInitializedBytesAt;
  store(out, initialized_at, load<std::uint32_t>(out, initialized_at) + file_bytes);
  store(out, header.optional_at + kImageBytesAt, static_cast<std::uint32_t>(round_up(memory_end, header.section_alignment)));
  store(out, header.optional_at + kChecksumAt, pe_checksum(out, header));
}

} // namespace

const PeSection* PeHeader::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(), [&](const PeSection& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

std::uint32_t PeHeader::memory_end() const {
  std::uint32_t end = header_bytes;
  for (const PeSection& section : sections)
    end = std::max(end, section.address + std::max(section.memory_bytes, section.file_bytes));
  return end;
}

Expected<PeHeader> parse_pe(std::string_view file, const std::string& place) {
  auto header = read_headers(file, place);
  if (!header) return header;
  const std::size_t count = load<std::uint16_t>(file, header->coff_at + kSectionCountAt);
  const std::uint64_t table_end = header->section_table_at + count * kSectionHeaderBytes;
  if (auto good = check_sizes(*header, table_end, file, place); !good) return tl::unexpected(good.error());
  for (std::size_t i = 0; i < count; ++i) {
    auto section = read_section(file, header->section_table_at + i * kSectionHeaderBytes, *header, place);
    if (!section) return tl::unexpected(section.error());
    header->sections.push_back(std::move(*section));
  }
  return header;
}

std::string_view section_bytes(std::string_view file, const PeSection& section) {
  return file.substr(section.file_bytes == 0 ? 0 : section.file_offset, std::min(section.file_bytes, section.memory_bytes));
}

std::uint32_t pe_checksum(std::string_view file, const PeHeader& header) {
  const std::size_t field = header.optional_at + kChecksumAt;
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < file.size(); at += 2) {
    if (at == field || at == field + 2) continue;
    const std::uint32_t high = at + 1 < file.size() ? static_cast<unsigned char>(file[at + 1]) : 0;
    sum += high << 8 | static_cast<unsigned char>(file[at]);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum + static_cast<std::uint32_t>(file.size());
}

Expected<std::string> append_sections(std::string_view file, const std::vector<NewSection>& sections, const std::string& place) {
  const auto header = parse_pe(file, place);
  if (!header) return tl::unexpected(header.error());
  if (auto good = check_append(file, *header, sections, place); !good) return tl::unexpected(good.error());
  std::string out(file);
  const std::uint64_t step = std::max(kSectionStep, header->section_alignment);
  std::uint64_t memory_end = header->memory_end();
  std::size_t header_at = header->section_table_at + header->sections.size() * kSectionHeaderBytes;
  std::uint64_t added = 0;
  for (const NewSection& section : sections) {
    const std::uint64_t address = round_up(memory_end, step);
    const std::uint64_t offset = round_up(out.size(), header->file_alignment);
    const std::uint64_t file_bytes = round_up(section.bytes.size(), header->file_alignment);
    memory_end = address + file_bytes;
    added += file_bytes;
    if (memory_end + step > UINT32_MAX || offset + file_bytes > UINT32_MAX)
      return bad(place, fmt::format("with section \"{}\" it would be larger than 4 GiB", section.name));
    store_section(out, header_at,
                  {section.name, static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(section.bytes.size()),
                   static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(file_bytes)});
    header_at += kSectionHeaderBytes;
    out.resize(offset, '\0');
    out += section.bytes;
    out.resize(offset + file_bytes, '\0');
  }
  store_totals(out, *header, header->sections.size() + sections.size(), static_cast<std::uint32_t>(added),
               static_cast<std::uint32_t>(memory_end));
  return out;
}

} // namespace ductl::image
