// Reading TOML tables key by key, with every fault marked in its line. Private to the inventory: it shows toml11.
#pragma once

#include "inventory/fault_log.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <toml.hpp>
#include <utility>
#include <vector>

namespace ductl::inventory {

// Syntax is checked by toml11, which stops at the first error. Files that would nest deeper than its recursion can bear are
// refused before. Throws nothing.
[[nodiscard]] std::optional<toml::value> parse_toml(std::string_view text, const std::string& name, FaultLog& faults);

[[nodiscard]] Mark mark_of(const toml::value& value);

struct MarkedText {
  std::string text;
  Mark mark;
};

// One table. Each getter takes the key as known, leaves `into` alone when the key is absent or wrong (wrong is reported), and
// says whether it was set. finish() then reports the keys that nobody asked for.
class TableReader {
public:
  TableReader(const toml::value& table, std::string title, FaultLog& faults);

  [[nodiscard]] bool has(const std::string& key) const { return find(key) != nullptr; }
  [[nodiscard]] Mark mark(const std::string& key) const; // of the value; of the table when it is absent
  void fault(const std::string& key, std::string message, std::string_view label = {}, std::string next = {},
             ErrorCode code = ErrorCode::kInventoryValue) const;
  void require(const std::string& key, const std::string& example); // reports when it is absent

  bool text(const std::string& key, std::string& into);
  bool boolean(const std::string& key, bool& into);
  // One string, or an array of strings.
  bool texts(const std::string& key, std::vector<MarkedText>& into);
  template <class Int> bool integer(const std::string& key, std::int64_t least, std::int64_t most, Int& into) {
    std::int64_t value = 0;
    if (!whole_number(key, least, most, value)) return false;
    into = static_cast<Int>(value);
    return true;
  }
  bool number(const std::string& key, double least, double most, double& into); // an integer is one as well
  template <class E, std::size_t N>
  bool choice(const std::string& key, const std::array<std::pair<const char*, E>, N>& names, E& into) {
    std::vector<std::string> words;
    for (const auto& [word, value] : names) words.emplace_back(word);
    std::size_t index = 0;
    if (!one_of(key, words, index)) return false;
    into = names[index].second;
    return true;
  }
  bool one_of(const std::string& key, const std::vector<std::string>& words, std::size_t& index);

  // [key]: absent or wrong = nothing.
  [[nodiscard]] std::optional<TableReader> section(const std::string& key);
  // [[key]], or one array of inline tables.
  [[nodiscard]] std::vector<TableReader> sections(const std::string& key);

  void finish();

private:
  [[nodiscard]] const toml::value* find(const std::string& key) const;
  const toml::value* know(const std::string& key);
  bool whole_number(const std::string& key, std::int64_t least, std::int64_t most, std::int64_t& into);
  void wrong_type(const std::string& key, const toml::value& value, const std::string& wanted) const;
  [[nodiscard]] std::string full_name(const std::string& key) const { return title_.empty() ? key : title_ + "." + key; }
  [[nodiscard]] Mark key_mark(const std::string& key, const toml::value& value) const;

  const toml::value* table_;
  std::string title_; // "engine"
  FaultLog* faults_;
  std::vector<std::string> known_;
};

} // namespace ductl::inventory
