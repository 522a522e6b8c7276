// Which known word a person may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ductl::inventory {

// Letters inserted, left out, replaced, or two neighbours swapped.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);
// The nearest of `known`: within two edits, or one the beginning of the other; "" when nothing is near.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string> known);

} // namespace ductl::inventory
