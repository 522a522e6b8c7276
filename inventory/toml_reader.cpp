#include "inventory/toml_reader.hpp"

#include "inventory/spelling.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ductl::inventory {
namespace {

std::string type_name(const toml::value& value) {
  switch (value.type()) {
  case toml::value_t::boolean: return "a boolean";
  case toml::value_t::integer: return "an integer";
  case toml::value_t::floating: return "a number with a fraction";
  case toml::value_t::string: return "a string";
  case toml::value_t::array: return "an array";
  case toml::value_t::table: return "a table";
  default: return "a date or time";
  }
}

std::string listed(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

// The value as the file writes it: what toml11 made of it may differ (numbers beyond 64 bits).
std::string as_written(const Mark& mark) {
  constexpr std::size_t kShownMax = 40;
  if (mark.column > mark.line_text.size()) return {};
  return mark.line_text.substr(mark.column - 1, std::min(mark.length, kShownMax));
}

} // namespace

Mark mark_of(const toml::value& value) {
  const toml::source_location place = value.location();
  return {place.line(), place.column(), std::max<std::size_t>(1, place.region()), place.line_str()};
}

TableReader::TableReader(const toml::value& table, std::string title, FaultLog& faults)
    : table_(&table), title_(std::move(title)), faults_(&faults) {}

const toml::value* TableReader::find(const std::string& key) const {
  const auto& entries = table_->as_table();
  const auto found = entries.find(key);
  return found == entries.end() ? nullptr : &found->second;
}

const toml::value* TableReader::know(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return find(key);
}

Mark TableReader::mark(const std::string& key) const {
  const toml::value* value = find(key);
  return mark_of(value != nullptr ? *value : *table_);
}

// toml11 keeps no place of a key; it stands before its value, nearly always in the same line, or within "[section]".
Mark TableReader::key_mark(const std::string& key, const toml::value& value) const {
  Mark mark = mark_of(value);
  std::size_t found = mark.line_text.rfind(key, mark.column - 1);
  if (found == std::string::npos) found = mark.line_text.find(key, mark.column - 1);
  if (found != std::string::npos) mark.column = found + 1, mark.length = key.size();
  return mark;
}

void TableReader::fault(const std::string& key, std::string message, std::string_view label, std::string next,
                        ErrorCode code) const {
  faults_->add(code, mark(key), std::move(message), label, std::move(next));
}

void TableReader::wrong_type(const std::string& key, const toml::value& value, const std::string& wanted) const {
  fault(key, fmt::format("{} must be {}", full_name(key), wanted), fmt::format("this is {}", type_name(value)));
}

void TableReader::require(const std::string& key, const std::string& example) {
  if (know(key) == nullptr)
    fault(key, fmt::format("{} is missing", full_name(key)), {}, fmt::format("add a line such as: {}", example));
}

bool TableReader::text(const std::string& key, std::string& into) {
  const toml::value* value = know(key);
  if (value == nullptr) return false;
  if (!value->is_string()) return wrong_type(key, *value, "a string"), false;
  into = value->as_string().str;
  return true;
}

bool TableReader::texts(const std::string& key, std::vector<MarkedText>& into) {
  const toml::value* value = know(key);
  if (value == nullptr) return false;
  if (value->is_string()) {
    into.push_back({value->as_string().str, mark_of(*value)});
    return true;
  }
  if (!value->is_array()) return wrong_type(key, *value, "a string, or an array of strings"), false;
  for (const toml::value& entry : value->as_array()) {
    if (!entry.is_string()) return wrong_type(key, *value, "a string, or an array of strings"), false;
    into.push_back({entry.as_string().str, mark_of(entry)});
  }
  return true;
}

bool TableReader::boolean(const std::string& key, bool& into) {
  const toml::value* value = know(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) return wrong_type(key, *value, "true or false"), false;
  into = value->as_boolean();
  return true;
}

bool TableReader::whole_number(const std::string& key, std::int64_t least, std::int64_t most, std::int64_t& into) {
  const toml::value* value = know(key);
  if (value == nullptr) return false;
  const std::string wanted = fmt::format("an integer from {} to {}", least, most);
  if (!value->is_integer()) return wrong_type(key, *value, wanted), false;
  if (value->as_integer() < least || value->as_integer() > most) {
    fault(key, fmt::format("{} = {} is out of range", full_name(key), as_written(mark(key))), "must be " + wanted);
    return false;
  }
  into = value->as_integer();
  return true;
}

bool TableReader::number(const std::string& key, double least, double most, double& into) {
  const toml::value* value = know(key);
  if (value == nullptr) return false;
  const std::string wanted = fmt::format("a number from {} to {}", least, most);
  if (!value->is_integer() && !value->is_floating()) return wrong_type(key, *value, wanted), false;
  const double found = value->is_integer() ? static_cast<double>(value->as_integer()) : value->as_floating();
  if (!(found >= least && found <= most)) {
    fault(key, fmt::format("{} = {} is out of range", full_name(key), as_written(mark(key))), "must be " + wanted);
    return false;
  }
  into = found;
  return true;
}

bool TableReader::one_of(const std::string& key, const std::vector<std::string>& words, std::size_t& index) {
  std::string word;
  if (!text(key, word)) return false;
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) {
    index = static_cast<std::size_t>(found - words.begin());
    return true;
  }
  const std::string near = nearest_word(word, words);
  fault(key, fmt::format("{} = {} is not known", full_name(key), as_written(mark(key))),
        fmt::format("must be one of {}", listed(words)), near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
  return false;
}

std::optional<TableReader> TableReader::section(const std::string& key) {
  const toml::value* value = know(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_table()) return TableReader(*value, full_name(key), *faults_);
  fault(key, fmt::format("{} must be a table", full_name(key)), fmt::format("this is {}", type_name(*value)),
        fmt::format("write it as [{}]", key));
  return std::nullopt;
}

std::vector<TableReader> TableReader::sections(const std::string& key) {
  const toml::value* value = know(key);
  std::vector<TableReader> readers;
  if (value == nullptr) return readers;
  const bool tables = value->is_array() && std::all_of(value->as_array().begin(), value->as_array().end(),
                                                       [](const toml::value& entry) { return entry.is_table(); });
  if (!tables) {
    fault(key, fmt::format("{} must be an array of tables", full_name(key)), fmt::format("this is {}", type_name(*value)),
          fmt::format("write each one as [[{}]]", key));
    return readers;
  }
  for (const toml::value& entry : value->as_array()) readers.emplace_back(entry, full_name(key), *faults_);
  return readers;
}

void TableReader::finish() {
  for (const auto& [key, value] : table_->as_table()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string near = nearest_word(key, known_);
    const std::string where = title_.empty() ? "at the top of the file" : fmt::format("in {}", title_);
    faults_->add(ErrorCode::kInventoryValue, key_mark(key, value), fmt::format("unknown key {} {}", key, where),
                 near.empty() ? "" : fmt::format("did you mean {}?", near),
                 fmt::format("the keys known here are {}", listed(known_)));
  }
}

} // namespace ductl::inventory
