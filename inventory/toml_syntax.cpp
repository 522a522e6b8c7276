// From text to toml11's values, or to one fault with its place.
#include "inventory/toml_reader.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <sstream>

namespace ductl::inventory {
namespace {

constexpr std::size_t kFileBytesMax = 256 * 1024;
constexpr int kNestingMax = 32; // brackets; the schema needs three
constexpr int kDotsMax = 256;   // of one line: each dot of a key is a level of tables

std::string_view line_at(std::string_view text, std::size_t line) {
  for (std::size_t i = 1; i < line; ++i) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string_view found = text.substr(0, text.find('\n'));
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

// Skips a string that begins at `i`; returns where it ends. An open string ends with its line or the text: toml11 reports it.
std::size_t skip_string(std::string_view text, std::size_t i) {
  const char quote = text[i];
  const std::string triple(3, quote);
  const bool multi_line = text.substr(i, 3) == triple;
  i += multi_line ? 3 : 1;
  while (i < text.size()) {
    if (quote == '"' && text[i] == '\\') {
      i += 2;
    } else if (multi_line && text.substr(i, 3) == triple) {
      return i + 3;
    } else if (!multi_line && (text[i] == quote || text[i] == '\n')) {
      return i + 1;
    } else {
      ++i;
    }
  }
  return text.size();
}

// toml11 calls itself for each level, so the depth of a hostile file must be known before. Returns the line that nests too
// deep, 0 when none does.
std::size_t line_nested_too_deep(std::string_view text) {
  std::size_t line = 1;
  int depth = 0, dots = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char byte = text[i];
    if (byte == '"' || byte == '\'') {
      const std::size_t end = std::min(skip_string(text, i), text.size());
      line += static_cast<std::size_t>(
          std::count(text.begin() + static_cast<std::ptrdiff_t>(i), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end;
      continue;
    }
    if (byte == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (byte == '\n') ++line, dots = 0;
    if (byte == '.') ++dots;
    if (byte == '[' || byte == '{') ++depth;
    if (byte == ']' || byte == '}') depth = std::max(0, depth - 1);
    if (depth > kNestingMax || dots > kDotsMax) return line;
    ++i;
  }
  return 0;
}

// TOML is UTF-8. toml11 3.7 finds that out of single strings only, and reads past its memory where a literal string is not; so no
// such text is given to it. True = a fault was added, with the first place.
bool add_utf8_fault(std::string_view text, FaultLog& faults) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (const std::ptrdiff_t at = toml::detail::check_utf8_validity(line); at >= 0) {
      const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
      std::replace_if(
          line.begin(), line.end(), [&](char c) { return !is_ascii(c); }, '?'); // to be shown
      faults.add(ErrorCode::kInventoryFile, {number, static_cast<std::size_t>(at) + 1, 1, line}, "not TOML: this is no UTF-8", {},
                 "save the file as UTF-8");
      return true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// toml11's message: "[error] toml::parse_x: text", a window, "| ^--- label". Its exception's column is that of the line's
// begin, so the caret's is taken from the window.
void add_syntax_fault(const std::string& what, const toml::source_location& place, FaultLog& faults) {
  std::istringstream lines(what);
  std::string line, label, message;
  std::getline(lines, message);
  if (const std::size_t prefix = message.find("[error] "); prefix == 0) message.erase(0, 8);
  if (message.starts_with("toml::") || message.starts_with("parse_")) message.erase(0, message.find(": ") + 2);
  if (message.ends_with(".")) message.pop_back();
  Mark mark{place.line(), place.column(), std::max<std::size_t>(1, place.region()), place.line_str()};
  while (std::getline(lines, line)) {
    const std::size_t bar = line.find("| ");
    const std::size_t caret = line.find_first_not_of(' ', bar == std::string::npos ? 0 : bar + 2);
    if (bar == std::string::npos || line.find_first_not_of(' ') != bar || caret == std::string::npos) continue;
    if (line[caret] != '^' && line[caret] != '~') continue;
    const std::size_t words = line.find_first_not_of("^~- ", caret);
    label = words == std::string::npos ? "" : line.substr(words);
    mark.column = caret - bar - 1;
    mark.length = std::max<std::size_t>(1, line.find_first_not_of('~', caret) - caret);
  }
  if (label == "here") label.clear();
  std::string next = "the rest of the file is checked once this is mended";
  // The most common slip. toml11 takes a bare word for a number or a boolean, by its first letter.
  const bool in_line = mark.column >= 1 && mark.column <= mark.line_text.size();
  if (in_line && std::isalpha(static_cast<unsigned char>(mark.line_text[mark.column - 1])) != 0 &&
      mark.line_text.find('=') < mark.column) {
    next = "a text stands in double quotes; " + next;
    if (message.empty()) message = "this is no value", label.clear();
  }
  if (message.empty()) std::swap(message, label);
  faults.add(ErrorCode::kInventoryFile, mark, "not TOML: " + message, label, next);
}

} // namespace

std::optional<toml::value> parse_toml(std::string_view text, const std::string& name, FaultLog& faults) {
  if (text.size() > kFileBytesMax) {
    faults.add(ErrorCode::kInventoryFile, {}, fmt::format("the file has {} bytes, more than {}", text.size(), kFileBytesMax), {},
               "an inventory of the largest flock has a few kilobytes: is this the right file?");
    return std::nullopt;
  }
  if (add_utf8_fault(text, faults)) return std::nullopt;
  if (const std::size_t line = line_nested_too_deep(text); line != 0) {
    const std::string_view found = line_at(text, line);
    faults.add(ErrorCode::kInventoryFile, {line, 1, found.size(), std::string(found)},
               fmt::format("nested deeper than {} levels", kNestingMax));
    return std::nullopt;
  }
  try {
    std::istringstream stream{std::string(text)};
    return toml::parse(stream, name);
  } catch (const toml::exception& error) { // a syntax error, or toml11's own trouble with the text
    add_syntax_fault(error.what(), error.location(), faults);
  } catch (const std::exception& error) { // numbers that the standard library refuses
    faults.add(ErrorCode::kInventoryFile, {}, fmt::format("not TOML: {}", error.what()));
  }
  return std::nullopt;
}

} // namespace ductl::inventory
