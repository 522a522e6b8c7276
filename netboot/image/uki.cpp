#include "netboot/image/uki.hpp"

#include "netboot/image/pe_file.hpp"

#include <fmt/format.h>

namespace ductl::image {
namespace {

constexpr std::uint16_t kMachineX86_64 = 0x8664;

Expected<void> check_machine(std::string_view file, const std::string& place) {
  const auto header = parse_pe(file, place);
  if (!header) return tl::unexpected(header.error());
  if (header->machine == kMachineX86_64) return {};
  return fail(ErrorCode::kImageInput, fmt::format("for machine {:#06x}, not x86-64", header->machine), place,
              "take the package of architecture amd64");
}

} // namespace

Expected<std::string> assemble_uki(std::string_view stub, const UkiParts& parts, const std::string& stub_place,
                                   const std::string& kernel_place) {
  if (auto good = check_machine(stub, stub_place); !good) return tl::unexpected(good.error());
  if (auto good = check_machine(parts.kernel, kernel_place); !good) return tl::unexpected(good.error());
  // The kernel last: a kernel that is started where it lies uses the memory behind it.
  return append_sections(
      stub, {{".osrel", parts.os_release}, {".cmdline", parts.command_line}, {".initrd", parts.initrd}, {".linux", parts.kernel}},
      stub_place);
}

} // namespace ductl::image
