// JSON that came from outside: parsed with a bound on depth and on doubled names, errors as values.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace ductl::weights {

// The text must be one JSON object. Objects and arrays deeper than `depth_max`, a name twice at the top level and anything
// that is not JSON are refused with `code`, naming `place`.
[[nodiscard]] Expected<nlohmann::json> parse_json_object(std::string_view text, int depth_max, ErrorCode code,
                                                         const std::string& place);

// A whole (small) text file. A file that does not exist or is larger than `bytes_max` is an error.
[[nodiscard]] Expected<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max);

} // namespace ductl::weights
