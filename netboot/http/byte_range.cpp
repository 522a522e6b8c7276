#include "netboot/http/byte_range.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ductl::http {
namespace {

constexpr std::string_view kUnit = "bytes=";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Digits and nothing else. A number too large for 64 bits is as good as the largest.
std::optional<std::uint64_t> number_in(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto fault = std::from_chars(text.data(), text.data() + text.size(), value).ec;
  return fault == std::errc::result_out_of_range ? ~std::uint64_t{0} : value;
}

} // namespace

ByteRange parse_byte_range(std::string_view header, std::uint64_t size) {
  const ByteRange whole{ByteRange::Kind::Whole, 0, size};
  header = trimmed(header);
  if (!header.starts_with(kUnit)) return whole;
  const std::string_view spec = trimmed(header.substr(kUnit.size()));
  const std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view first_text = spec.substr(0, dash), last_text = spec.substr(dash + 1);
  if (first_text.empty()) { // the last so many
    const auto count = number_in(last_text);
    if (!count) return whole;
    if (*count == 0 || size == 0) return {ByteRange::Kind::Unsatisfiable, 0, 0};
    const std::uint64_t length = std::min(*count, size);
    return {ByteRange::Kind::Part, size - length, length};
  }
  const auto first = number_in(first_text);
  const auto last = last_text.empty() ? std::optional(~std::uint64_t{0}) : number_in(last_text);
  if (!first || !last || *last < *first) return whole;
  if (*first >= size) return {ByteRange::Kind::Unsatisfiable, 0, 0};
  return {ByteRange::Kind::Part, *first, std::min(*last, size - 1) - *first + 1};
}

} // namespace ductl::http
