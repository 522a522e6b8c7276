// The shape of UTF-8: where the next character ends, and what to make of bytes that are none.
//
// Ill-formed bytes follow the Unicode standard's "maximal subpart" practice (and that of Rust, Python and browsers): each
// longest prefix of a character that cannot go on counts as one error and becomes one U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace ductl::engine {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD"; // U+FFFD

enum class Utf8Kind {
  Character,  // `length` bytes are one character
  Invalid,    // `length` bytes are one error
  Incomplete, // the text ends within a character: `length` bytes are left
};
struct Utf8Step {
  Utf8Kind kind;
  int length; // 1..4
};

// The first step of a text that is not empty.
[[nodiscard]] Utf8Step utf8_step(std::string_view text);

// The code point of a whole character, as utf8_step() found it.
[[nodiscard]] char32_t utf8_code_point(std::string_view character);

[[nodiscard]] bool is_utf8(std::string_view text);
// Every error, and an incomplete end, replaced by U+FFFD.
[[nodiscard]] std::string repaired_utf8(std::string_view text);

} // namespace ductl::engine
