// Keys of the engine's HTTP API: <state folder>/api-keys, mode 0600, one a line, '#' begins a comment. Without the file the API
// is open, and then only on loopback. duck-engine reads it at start; ductl on the same machine talks with the first one.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ductl::agent {

inline constexpr std::size_t kApiKeyCharacters = 22; // at least: 128 bits in base64

// None when there is no file. kState when it is a link or no file, when others may read it, when a key is short or holds a space,
// or when there are none in it.
[[nodiscard]] Expected<std::vector<std::string>> load_api_keys(const std::filesystem::path& file);

// What a client on this machine sends: $DUCTL_API_KEY, else the file's first key, else "".
[[nodiscard]] std::string own_api_key(const std::filesystem::path& file);

} // namespace ductl::agent
