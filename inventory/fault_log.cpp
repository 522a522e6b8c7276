#include "inventory/fault_log.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::inventory {
namespace {

constexpr std::size_t kWindowBytesMax = 160;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Tabs become one space so that the caret stands right; other control bytes must not reach a terminal.
std::string without_controls(std::string_view text) {
  std::string out(text);
  for (char& byte : out) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '\t') byte = ' ';
    if (value < 0x20 || value == 0x7f) byte = byte == ' ' ? ' ' : '?';
  }
  return out;
}

std::size_t characters(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

} // namespace

std::string window_text(const Mark& mark, std::string_view label) {
  std::string_view line = mark.line_text;
  std::size_t start = std::min(mark.column - 1, line.size());
  if (line.size() > kWindowBytesMax) { // keep the mark within what is shown
    std::size_t cut = start > kWindowBytesMax / 2 ? start - kWindowBytesMax / 2 : 0;
    while (cut > 0 && cut < line.size() && continues_character(line[cut])) --cut;
    line = line.substr(cut, kWindowBytesMax);
    while (!line.empty() && continues_character(line.back())) line.remove_suffix(1);
    if (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0) == 0xc0) line.remove_suffix(1);
    start = std::min(start - cut, line.size());
  }
  const std::size_t length = std::min(mark.length, line.size() - start);
  const std::size_t carets = std::max<std::size_t>(1, characters(line.substr(start, length)));
  const std::string number = std::to_string(mark.line);
  const std::string margin(number.size(), ' ');
  std::string out = fmt::format("{} |\n{} | {}\n{} | {}{}", margin, number, without_controls(line), margin,
                                std::string(characters(line.substr(0, start)), ' '), std::string(carets, '^'));
  if (!label.empty()) out += fmt::format(" {}", label);
  return out;
}

std::string window_label(std::string_view window) {
  const std::size_t carets = window.find_last_of('^'), line = window.find_last_of('\n');
  if (carets == std::string_view::npos || line == std::string_view::npos || carets < line) return {};
  return std::string(window.substr(std::min(window.size(), carets + 2)));
}

void FaultLog::add(ErrorCode code, const Mark& mark, std::string message, std::string_view label, std::string next) {
  if (entries_.size() >= kFaultsMax) {
    ++left_out_;
    return;
  }
  Error error{code, std::move(message), fmt::format("{}:{}:{}", file_name_, mark.line, mark.column), std::move(next),
              window_text(mark, label)};
  entries_.push_back({mark.line, mark.column, std::move(error)});
}

Faults FaultLog::take() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return std::pair(a.line, a.column) < std::pair(b.line, b.column); });
  Faults faults;
  for (Entry& entry : entries_) faults.errors.push_back(std::move(entry.error));
  if (left_out_ > 0)
    faults.errors.push_back({ErrorCode::kInventoryValue,
                             fmt::format("and {} faults more", left_out_),
                             file_name_,
                             "fix these first, then run `ductl validate` again",
                             {}});
  return faults;
}

} // namespace ductl::inventory
