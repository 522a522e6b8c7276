// Taking the JSON bodies of others apart: what is missing, of another type, out of range or nested too deep is refused by name.
// For the messages of this folder.
#pragma once

#include "inventory/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace ductl::agent {

using nlohmann::json;

inline constexpr int kDepthMax = 4; // {"slices":[[1,2,3]]} has 3

inline tl::unexpected<Error> bad(const std::string& message) { return fail(ErrorCode::kAgentRefused, "body: " + message); }

// An object, not nested deeper than any message is: a deep one is cut off while it is parsed.
inline Expected<json> parse_object(std::string_view text) {
  bool too_deep = false;
  const auto shallow = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kDepthMax;
    return depth <= kDepthMax;
  };
  json value = json::parse(text, shallow, false);
  if (too_deep) return bad("nested too deep");
  if (!value.is_object()) return bad("not a JSON object");
  return value;
}

template <class T> std::optional<T> integer(const json& value, T min, T max) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) && !std::is_same_v<T, std::uint64_t>)
      return std::nullopt;
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return number >= min && number <= max ? std::optional(number) : std::nullopt;
    }
  }
  if (!value.is_number_integer()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return std::nullopt; // negative
  } else {
    const auto number = value.get<std::int64_t>();
    if (number < static_cast<std::int64_t>(min) || number > static_cast<std::int64_t>(max)) return std::nullopt;
    return static_cast<T>(number);
  }
}

inline std::optional<std::uint64_t> hex64(const json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

inline std::string hex64_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

// Takes fields out of an object; the first that is wrong is kept as the error.
class Fields {
public:
  explicit Fields(const json& object) : object_(object) {}

  template <class T> void take(const char* name, T& out, T min = 0, T max = std::numeric_limits<T>::max()) {
    const json* value = find(name);
    if (!value) return;
    const auto number = integer<T>(*value, min, max);
    if (!number) return note(fmt::format("'{}' must be an integer of {}..{}", name, min, max));
    out = *number;
  }
  void take(const char* name, bool& out) {
    const json* value = find(name);
    if (value && !value->is_boolean()) return note(fmt::format("'{}' must be true or false", name));
    if (value) out = value->get<bool>();
  }
  void take(const char* name, std::string& out, std::size_t bytes_max = 1024) {
    const json* value = find(name);
    if (value && (!value->is_string() || value->get_ref<const std::string&>().size() > bytes_max))
      return note(fmt::format("'{}' must be a string of at most {} bytes", name, bytes_max));
    if (value) out = value->get<std::string>();
  }
  void take_hex(const char* name, std::uint64_t& out) {
    const json* value = find(name);
    if (!value) return;
    const auto number = hex64(*value);
    if (!number) return note(fmt::format("'{}' must be 16 hex digits", name));
    out = *number;
  }
  const json* take_array(const char* name) {
    const json* value = find(name);
    if (value && !value->is_array()) note(fmt::format("'{}' must be an array", name));
    return value && value->is_array() ? value : nullptr;
  }
  void note(std::string message) {
    if (!error_) error_ = std::move(message);
  }
  [[nodiscard]] const std::optional<std::string>& error() const { return error_; }

private:
  const json* find(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    note(fmt::format("'{}' is missing", name));
    return nullptr;
  }
  const json& object_;
  std::optional<std::string> error_;
};

template <class T> Expected<T> result(const Fields& fields, T value) {
  if (fields.error()) return bad(*fields.error());
  return value;
}

} // namespace ductl::agent
