// The flock key: 32 random bytes as 64 hex digits, in $XDG_STATE_HOME/ductl/<flock>/key, mode 0600.
// Whoever has it may write to agents. It never stands in argv, in an environment variable or in a log.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>

namespace ductl::agent {

[[nodiscard]] Expected<std::string> load_flock_key(const std::filesystem::path& file);   // refuses a file that others may read
[[nodiscard]] Expected<std::string> obtain_flock_key(const std::filesystem::path& file); // makes it when absent (atomically)
[[nodiscard]] Expected<std::string> read_flock_key(int descriptor);                      // inherited; read to the end and closed

} // namespace ductl::agent
