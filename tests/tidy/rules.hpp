// Rules about source files: one file's path (from the root of the tree) and text in, what is wrong with it out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ductl::tidy {

using Complaints = std::vector<std::string>; // "path:line: what"

// Includes of our own folders only go down (docs/architecture.md).
[[nodiscard]] Complaints floor_complaints(std::string_view path, std::string_view text);
// Heavy or low-level libraries stay in the folder that wraps them.
[[nodiscard]] Complaints library_complaints(std::string_view path, std::string_view text);
// Files with wide instructions include nothing whose inline code other files share.
[[nodiscard]] Complaints avx2_complaints(std::string_view path, std::string_view text);
// Length, #pragma once, no conditional compilation by our options, no notes to oneself.
[[nodiscard]] Complaints form_complaints(std::string_view path, std::string_view text);
// Only mains and loops that do I/O read a clock; the list of them is in rules.cpp.
[[nodiscard]] Complaints clock_complaints(std::string_view path, std::string_view text);

} // namespace ductl::tidy
