// Small state files, read and written whole.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace ductl::weights {

[[nodiscard]] Expected<std::string> read_whole_file(const std::filesystem::path& file);
// A reader sees the old contents or the new ones, also after a power cut: written beside, fsync, renamed, folder fsync.
// Makes the folder when it is missing.
[[nodiscard]] Expected<void> replace_whole_file(const std::filesystem::path& file, std::string_view contents);

} // namespace ductl::weights
