// "duck[01-08,12]" -> duck01 ... duck08, duck12. The hostlist form that cluster tools share, with one bracket.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ductl::inventory {

inline constexpr int kHostlistMax = 256; // names of one list

// Decimal numbers; a range keeps the zeros in front of its first number. Text without a bracket is a list of one.
// The error says what is wrong, in words, without a place.
[[nodiscard]] tl::expected<std::vector<std::string>, std::string> expand_hostlist(std::string_view text);

} // namespace ductl::inventory
