// Typed, careful reading of the fields of config.json: used by model_config.cpp only.
//
// A field may stand at the root or under "text_config"; null counts as absent. Faults are collected, the first few are
// reported together.
#pragma once

#include "inventory/error.hpp"

#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ductl::weights {

class ConfigReader {
public:
  ConfigReader(const nlohmann::json& root, std::string place);

  // The field, or null when absent (or JSON null). The text_config's own value wins over the root's.
  [[nodiscard]] const nlohmann::json* find(const char* name) const;
  // True when the field is written, and written as null.
  [[nodiscard]] bool is_null(const char* name) const;
  // All values that the field has, root first: for fields where both places must be looked at.
  [[nodiscard]] std::vector<const nlohmann::json*> find_all(const char* name) const;

  int integer(const char* name, int low, int high);                                             // required
  int integer_or(const char* name, int fallback, int low, int high);                            // fallback when absent
  double number(const nlohmann::json* value, const std::string& name, double low, double high); // required
  double number_or(const nlohmann::json* value, const std::string& name, double fallback, double low, double high);
  bool boolean(const char* name); // required
  bool boolean_or(const char* name, bool fallback);
  std::string text_or(const char* name, const std::string& fallback);
  // Token ids: an int, a list of ints, or absent; each in 0..vocab-1.
  std::vector<int> tokens(const nlohmann::json* value, const std::string& name, int vocab);

  // Faults: a wrong or missing value; a value that is fine but that this engine does not compute.
  void wrong(const std::string& name, const std::string& why);
  void unsupported(const std::string& name, const nlohmann::json& value, const std::string& why);
  void require_absent_or(const char* name, const nlohmann::json& expected, const std::string& why); // else unsupported()

  [[nodiscard]] bool ok() const { return faults_.empty(); }
  [[nodiscard]] Error error() const; // !ok()

private:
  const nlohmann::json& root_;
  const nlohmann::json* text_ = nullptr;
  std::string place_;
  std::vector<std::string> faults_;
};

} // namespace ductl::weights
