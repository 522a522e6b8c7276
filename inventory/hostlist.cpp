#include "inventory/hostlist.hpp"

#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace ductl::inventory {
namespace {

using Words = tl::expected<std::vector<std::string>, std::string>;

std::optional<unsigned> number(std::string_view digits) {
  constexpr std::size_t kDigitsMax = 9;
  if (digits.empty() || digits.size() > kDigitsMax) return std::nullopt;
  unsigned value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// "03-07" or "12", as numbers with the width of the first.
tl::expected<void, std::string> expand_range(std::string_view range, std::vector<std::string>& numbers) {
  const std::size_t dash = range.find('-');
  const std::string_view first_digits = range.substr(0, dash);
  const std::string_view last_digits = dash == std::string_view::npos ? first_digits : range.substr(dash + 1);
  const auto first = number(first_digits), last = number(last_digits);
  if (!first || !last) return tl::unexpected(fmt::format("\"{}\" is neither a number nor a range such as 01-08", range));
  if (*last < *first) return tl::unexpected(fmt::format("the range {} counts down", range));
  if (*last - *first >= kHostlistMax || numbers.size() + (*last - *first) >= kHostlistMax)
    return tl::unexpected(fmt::format("the range {} makes more than {} entries", range, kHostlistMax));
  for (unsigned value = *first; value <= *last; ++value) numbers.push_back(fmt::format("{:0{}}", value, first_digits.size()));
  return {};
}

} // namespace

Words expand_hostlist(std::string_view text) {
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos) return std::vector<std::string>{std::string(text)};
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return tl::unexpected(std::string("the bracket is not closed, or not opened"));
  if (text.find('[', open + 1) != std::string_view::npos || text.find(']', close + 1) != std::string_view::npos)
    return tl::unexpected(std::string("there is more than one bracket"));

  std::vector<std::string> numbers;
  std::string_view rest = text.substr(open + 1, close - open - 1);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    if (auto expanded = expand_range(rest.substr(0, comma), numbers); !expanded) return tl::unexpected(expanded.error());
    if (more) rest.remove_prefix(comma + 1);
  }
  for (std::string& word : numbers) word = fmt::format("{}{}{}", text.substr(0, open), word, text.substr(close + 1));
  return numbers;
}

} // namespace ductl::inventory
