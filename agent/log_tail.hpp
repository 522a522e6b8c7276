// The last lines of a log file.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>

namespace ductl::agent {

// At most `bytes_max` bytes from the end, beginning at the start of a line.
[[nodiscard]] Expected<std::string> log_tail(const std::filesystem::path& file, std::size_t bytes_max);

} // namespace ductl::agent
