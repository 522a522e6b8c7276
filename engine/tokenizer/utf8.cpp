#include "engine/tokenizer/utf8.hpp"

#include <cstdint>

namespace ductl::engine {
namespace {

struct Lead { // what may follow a first byte (Unicode, table 3-7)
  int length;
  std::uint8_t second_min, second_max;
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF}; // no overlong forms
  if (byte == 0xED) return {3, 0x80, 0x9F}; // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F}; // nothing beyond U+10FFFF
  return {0, 0, 0};
}

} // namespace

Utf8Step utf8_step(std::string_view text) {
  const Lead lead = lead_of(static_cast<std::uint8_t>(text[0]));
  if (lead.length == 0) return {Utf8Kind::Invalid, 1};
  for (int i = 1; i < lead.length; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) return {Utf8Kind::Incomplete, i};
    const auto byte = static_cast<std::uint8_t>(text[static_cast<std::size_t>(i)]);
    const std::uint8_t lowest = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t highest = i == 1 ? lead.second_max : 0xBF;
    if (byte < lowest || byte > highest) return {Utf8Kind::Invalid, i};
  }
  return {Utf8Kind::Character, lead.length};
}

char32_t utf8_code_point(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return first;
  char32_t value = first & (0xFFu >> (character.size() + 1));
  for (const char byte : character.substr(1)) value = value << 6 | (static_cast<std::uint8_t>(byte) & 0x3Fu);
  return value;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::Character) return false;
    text.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return true;
}

std::string repaired_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    out += step.kind == Utf8Kind::Character ? text.substr(0, static_cast<std::size_t>(step.length)) : kReplacementCharacter;
    text.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return out;
}

} // namespace ductl::engine
