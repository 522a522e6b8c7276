// Colours and widths of terminal text. No I/O: everything returns strings.
#pragma once

#include <string>
#include <string_view>

namespace ductl::view {

enum class Style { Plain, Bold, Dim, Red, Green, Yellow, Cyan };

// `text` between the escape sequences of `style`; unchanged when colour is off, the style is Plain or the text is empty.
[[nodiscard]] std::string paint(std::string_view text, Style style, bool colour);
// Cells that `text` takes on a terminal (wide characters two, combining marks none). Bytes that are not UTF-8 count one.
[[nodiscard]] int display_width(std::string_view text);
// Control characters (and bytes that are not UTF-8) replaced, so that what a peer or a file said can't steer the terminal.
[[nodiscard]] std::string printable(std::string_view text);
// The same for text of several lines: newlines and tabs stay.
[[nodiscard]] std::string printable_lines(std::string_view text);
// The longest beginning that takes at most `width` cells, ending in "…" when something was cut.
[[nodiscard]] std::string cut(std::string_view text, int width);

} // namespace ductl::view
