// The words after `duck-engine <command>`: options with and without a value, and what is left. Pure.
#pragma once

#include "inventory/error.hpp"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ductl::engine {

struct OptionSpec {
  std::string name; // "--ids"
  bool value = false;
};

class Arguments {
public:
  // "--name value" or "--name=value"; after "--" everything is a positional word. An option that is not in `specs`, a
  // missing or doubled value and a wrong number of positional words are kUsage.
  [[nodiscard]] static Expected<Arguments> parse(std::span<const std::string> words, std::span<const OptionSpec> specs,
                                                 std::size_t positionals);
  [[nodiscard]] const std::string& positional(std::size_t index) const { return positionals_[index]; }
  [[nodiscard]] bool has(const std::string& name) const { return flags_.contains(name) || values_.contains(name); }
  [[nodiscard]] std::optional<std::string> value(const std::string& name) const;
  // A required value; kUsage when it is absent.
  [[nodiscard]] Expected<std::string> require(const std::string& name) const;

private:
  std::vector<std::string> positionals_;
  std::set<std::string> flags_;
  std::map<std::string, std::string> values_;
};

// "12" -> 12, within low..high; `what` names it in the error.
[[nodiscard]] Expected<int> parse_integer(const std::string& text, int low, int high, const std::string& what);
// "1,2,3"; each within 0..vocab-1.
[[nodiscard]] Expected<std::vector<int>> parse_ids(const std::string& text, int vocab);

} // namespace ductl::engine
