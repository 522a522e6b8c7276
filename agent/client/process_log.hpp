// One rotated log a process (5 files of 4 MiB), used by duck-agent, duck-engine and ductl. Through spdlog's default logger:
// after start_log(), use spdlog::info(...) and so on. Lines: "2026-11-29T21:10:09.123 info text". No secret is ever logged.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>

namespace ductl::agent {

[[nodiscard]] Expected<void> start_log(const std::filesystem::path& file);

} // namespace ductl::agent
