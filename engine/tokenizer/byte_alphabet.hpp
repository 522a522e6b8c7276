// GPT-2's alphabet: how vocabularies write bytes as visible characters (space is U+0120 "Ġ").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ductl::engine {

[[nodiscard]] std::string letter_of_byte(std::uint8_t byte); // UTF-8
// The bytes that a word of the alphabet stands for; nothing when a character is not of the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view letters);

} // namespace ductl::engine
