// Reads "newc" archives by the format's description, not by our writer: what a field says is believed only where the
// archive has room for it. Throws std::runtime_error.
#pragma once

#include "netboot/image/cpio.hpp"

#include <string_view>
#include <vector>

namespace ductl::image::test {

struct ReadEntry {
  CpioEntry entry;
  std::uint32_t inode = 0, user = 0, group = 0, links = 0, time = 0;
};

[[nodiscard]] std::vector<ReadEntry> read_cpio(std::string_view archive);
// Only the entries.
[[nodiscard]] std::vector<CpioEntry> cpio_entries(std::string_view archive);

} // namespace ductl::image::test
