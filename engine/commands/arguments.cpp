#include "engine/commands/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace ductl::engine {
namespace {

tl::unexpected<Error> usage(std::string message) {
  return fail(ErrorCode::kUsage, std::move(message), "", "`duck-engine --help` shows every command and option");
}

} // namespace

Expected<Arguments> Arguments::parse(std::span<const std::string> words, std::span<const OptionSpec> specs,
                                     std::size_t positionals) {
  Arguments result;
  bool only_positionals = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (only_positionals || word.size() < 2 || word.front() != '-') {
      result.positionals_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_positionals = true;
      continue;
    }
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == name; });
    if (spec == specs.end()) return usage(fmt::format("option {} is not known here", name));
    if (result.has(name)) return usage(fmt::format("option {} is given twice", name));
    if (!spec->value) {
      if (equals != std::string::npos) return usage(fmt::format("option {} takes no value", name));
      result.flags_.insert(name);
    } else if (equals != std::string::npos) {
      result.values_[name] = word.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      result.values_[name] = words[++i];
    } else {
      return usage(fmt::format("option {} needs a value", name));
    }
  }
  if (result.positionals_.size() < positionals) return usage("a word is missing");
  if (result.positionals_.size() > positionals)
    return usage(fmt::format("\"{}\" is one word too many", result.positionals_[positionals]));
  return result;
}

std::optional<std::string> Arguments::value(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

Expected<std::string> Arguments::require(const std::string& name) const {
  auto found = value(name);
  if (!found) return usage(fmt::format("option {} is missing", name));
  return *found;
}

Expected<int> parse_integer(const std::string& text, int low, int high, const std::string& what) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    return usage(fmt::format("{} is \"{}\", expected a number from {} to {}", what, text, low, high));
  }
  return number;
}

Expected<std::vector<int>> parse_ids(const std::string& text, int vocab) {
  std::vector<int> ids;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    auto id = parse_integer(text.substr(begin, end - begin), 0, vocab - 1, "a token id");
    if (!id) {
      id.error().place = "--ids";
      id.error().next = "ids are numbers with commas between: --ids 1,2,3";
      return tl::unexpected(id.error());
    }
    ids.push_back(*id);
    begin = end + 1;
  }
  return ids;
}

} // namespace ductl::engine
