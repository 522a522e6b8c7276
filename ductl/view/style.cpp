#include "ductl/view/style.hpp"

#include <utf8proc.h>

namespace ductl::view {
namespace {

struct Character {
  std::size_t bytes = 1;
  utf8proc_int32_t code_point = -1; // -1 = not UTF-8
};

Character first_character(std::string_view text) {
  utf8proc_int32_t code_point = -1;
  const utf8proc_ssize_t bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                  static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (bytes <= 0) return {};
  return {static_cast<std::size_t>(bytes), code_point};
}

bool is_control(utf8proc_int32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(code_point);
  // Format characters (Cf) turn the direction of text; the joiner between emoji is harmless.
  constexpr utf8proc_int32_t kZeroWidthJoiner = 0x200d;
  return category == UTF8PROC_CATEGORY_CC || (category == UTF8PROC_CATEGORY_CF && code_point != kZeroWidthJoiner);
}

int width_of(const Character& character) {
  if (character.code_point < 0) return 1;
  return utf8proc_charwidth(character.code_point);
}

const char* sequence(Style style) {
  switch (style) {
  case Style::Bold: return "\x1b[1m";
  case Style::Dim: return "\x1b[2m";
  case Style::Red: return "\x1b[1;31m";
  case Style::Green: return "\x1b[32m";
  case Style::Yellow: return "\x1b[33m";
  case Style::Cyan: return "\x1b[36m";
  case Style::Plain: break;
  }
  return "";
}

} // namespace

std::string paint(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::Plain || text.empty()) return std::string(text);
  return std::string(sequence(style)).append(text).append("\x1b[0m");
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += width_of(character);
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.code_point == '\t')
      out += ' ';
    else if (character.code_point < 0 || is_control(character.code_point))
      out += "\ufffd";
    else
      out.append(text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t kept = text.find_first_of("\n\t");
    out += printable(text.substr(0, kept));
    if (kept == std::string_view::npos) break;
    out += text[kept];
    text.remove_prefix(kept + 1);
  }
  return out;
}

std::string cut(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string out;
  int used = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    const int cells = width_of(character);
    if (used + cells > width - 1) break;
    used += cells;
    out.append(text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
  return width > 0 ? out + "…" : std::string();
}

} // namespace ductl::view
