#include "weights/config_reader.hpp"

#include <cmath>
#include <fmt/format.h>

namespace ductl::weights {
namespace {
constexpr std::size_t kFaultsShown = 8;

const nlohmann::json* field(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string brief(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}
} // namespace

ConfigReader::ConfigReader(const nlohmann::json& root, std::string place) : root_(root), place_(std::move(place)) {
  const auto it = root.find("text_config");
  if (it != root.end() && it->is_object()) text_ = &*it;
}

const nlohmann::json* ConfigReader::find(const char* name) const {
  if (text_ != nullptr) {
    if (const auto* value = field(*text_, name)) return value;
  }
  return field(root_, name);
}

bool ConfigReader::is_null(const char* name) const {
  if (find(name) != nullptr) return false;
  return root_.contains(name) || (text_ != nullptr && text_->contains(name));
}

std::vector<const nlohmann::json*> ConfigReader::find_all(const char* name) const {
  std::vector<const nlohmann::json*> values;
  if (const auto* value = field(root_, name)) values.push_back(value);
  if (text_ != nullptr) {
    if (const auto* value = field(*text_, name)) values.push_back(value);
  }
  return values;
}

int ConfigReader::integer(const char* name, int low, int high) {
  if (find(name) == nullptr) {
    wrong(name, "is missing");
    return low;
  }
  return integer_or(name, low, low, high);
}

int ConfigReader::integer_or(const char* name, int fallback, int low, int high) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) {
    wrong(name, fmt::format("is {}, not an integer", brief(*value)));
    return low;
  }
  // Unsigned first: a number beyond int64 must not wrap into the range.
  const bool in_range = value->is_number_unsigned() ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
                                                          low <= static_cast<std::int64_t>(value->get<std::uint64_t>())
                                                    : value->get<std::int64_t>() >= low && value->get<std::int64_t>() <= high;
  if (!in_range) {
    wrong(name, fmt::format("is {}, outside {}..{}", brief(*value), low, high));
    return low;
  }
  return value->get<int>();
}

double ConfigReader::number(const nlohmann::json* value, const std::string& name, double low, double high) {
  if (value == nullptr) {
    wrong(name, "is missing");
    return low;
  }
  return number_or(value, name, low, low, high);
}

double ConfigReader::number_or(const nlohmann::json* value, const std::string& name, double fallback, double low, double high) {
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    wrong(name, fmt::format("is {}, not a number", brief(*value)));
    return low;
  }
  const double result = value->get<double>();
  if (!std::isfinite(result) || result < low || result > high) {
    wrong(name, fmt::format("is {}, outside {}..{}", brief(*value), low, high));
    return low;
  }
  return result;
}

bool ConfigReader::boolean(const char* name) {
  if (find(name) == nullptr) wrong(name, "is missing");
  return boolean_or(name, false);
}

bool ConfigReader::boolean_or(const char* name, bool fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    wrong(name, fmt::format("is {}, neither true nor false", brief(*value)));
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text_or(const char* name, const std::string& fallback) {
  const auto* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    wrong(name, fmt::format("is {}, not a string", brief(*value)));
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<int> ConfigReader::tokens(const nlohmann::json* value, const std::string& name, int vocab) {
  std::vector<int> ids;
  if (value == nullptr) return ids;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const auto& id : list) {
    const bool fine = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab);
    if (!fine) {
      wrong(name, fmt::format("holds {}, which is no token id of a vocabulary of {}", brief(id), vocab));
      return {};
    }
    ids.push_back(id.get<int>());
  }
  return ids;
}

void ConfigReader::wrong(const std::string& name, const std::string& why) { faults_.push_back(fmt::format("{} {}", name, why)); }

void ConfigReader::unsupported(const std::string& name, const nlohmann::json& value, const std::string& why) {
  faults_.push_back(fmt::format("{} = {} is not supported{}{}", name, brief(value), why.empty() ? "" : ": ", why));
}

void ConfigReader::require_absent_or(const char* name, const nlohmann::json& expected, const std::string& why) {
  for (const auto* value : find_all(name)) {
    if (*value != expected) {
      unsupported(name, *value, why);
      return;
    }
  }
}

Error ConfigReader::error() const {
  std::string message;
  for (std::size_t i = 0; i < faults_.size() && i < kFaultsShown; ++i) message += (i == 0 ? "" : "; ") + faults_[i];
  if (faults_.size() > kFaultsShown) message += fmt::format("; and {} more", faults_.size() - kFaultsShown);
  return Error{ErrorCode::kModelUnsupported, std::move(message), place_,
               "use a model of a supported family (docs/models.md lists what is read and what is refused)"};
}

} // namespace ductl::weights
