// Files of an image, read and written whole.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace ductl::image {

// Fails with kImageFile; `next` tells what to do about a file that is not there.
[[nodiscard]] Expected<std::string> read_file(const std::filesystem::path& file, const std::string& next);

// A reader sees the old contents or the new ones: written beside and renamed. Mode 0644 whatever the umask.
[[nodiscard]] Expected<void> write_file(const std::filesystem::path& file, std::string_view contents);

} // namespace ductl::image
