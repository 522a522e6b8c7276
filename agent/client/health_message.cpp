#include "agent/client/health_message.hpp"

#include "agent/client/message_fields.hpp"

#include <algorithm>
#include <array>

namespace ductl::agent {
namespace {

constexpr std::size_t kChecksMax = 256, kTextBytesMax = 1024;
constexpr std::array<HealthState, 4> kStates{HealthState::Ok, HealthState::Unknown, HealthState::Warn,
                                             HealthState::Fail}; // by gravity

std::size_t gravity(HealthState state) {
  return static_cast<std::size_t>(std::find(kStates.begin(), kStates.end(), state) - kStates.begin());
}

json check_json(const HealthCheck& check) {
  return {{"name", check.name},
          {"state", to_string(check.state)},
          {"value", check.value},
          {"expected", check.expected},
          {"advice", check.advice},
          {"since_s", check.since_s},
          {"figure", check.figure ? json(*check.figure) : json()}};
}

Expected<HealthCheck> parse_check(const json& object) {
  if (!object.is_object()) return bad("'checks' must hold objects");
  HealthCheck check;
  std::string state;
  Fields fields(object);
  fields.take("name", check.name, 64);
  fields.take("state", state, 16);
  fields.take("value", check.value, kTextBytesMax);
  fields.take("expected", check.expected, kTextBytesMax);
  fields.take("advice", check.advice, kTextBytesMax);
  fields.take<std::uint64_t>("since_s", check.since_s);
  if (const auto figure = object.find("figure"); figure != object.end() && !figure->is_null()) {
    check.figure =
        integer<std::int64_t>(*figure, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    if (!check.figure) fields.note("'figure' must be an integer or null");
  }
  const auto known = std::find_if(kStates.begin(), kStates.end(), [&](HealthState s) { return state == to_string(s); });
  if (known == kStates.end()) fields.note("'state' must be ok, warn, fail or unknown");
  check.state = known == kStates.end() ? HealthState::Unknown : *known;
  return result(fields, std::move(check));
}

} // namespace

const char* to_string(HealthState state) {
  switch (state) {
  case HealthState::Ok: return "ok";
  case HealthState::Warn: return "warn";
  case HealthState::Fail: return "fail";
  case HealthState::Unknown: break;
  }
  return "unknown";
}

HealthState worst(const Health& health) {
  std::size_t most = 0;
  for (const HealthCheck& check : health.checks) most = std::max(most, gravity(check.state));
  return kStates[most];
}

const HealthCheck* find(const Health& health, std::string_view name) {
  const auto found =
      std::find_if(health.checks.begin(), health.checks.end(), [&](const HealthCheck& check) { return check.name == name; });
  return found == health.checks.end() ? nullptr : &*found;
}

std::string health_text(const Health& health) {
  json checks = json::array();
  for (const HealthCheck& check : health.checks) checks.push_back(check_json(check));
  const json body{{"checks", std::move(checks)},
                  {"image", health.image.empty() ? json() : json(health.image)},
                  {"agent", health.agent},
                  {"uptime_s", health.uptime_s}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace); // sysfs may hold any bytes
}

Expected<Health> parse_health(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  Health health;
  Fields fields(*object);
  fields.take("agent", health.agent);
  fields.take<std::uint64_t>("uptime_s", health.uptime_s);
  if (object->contains("image") && !object->at("image").is_null()) fields.take("image", health.image);
  if (const json* checks = fields.take_array("checks")) {
    if (checks->size() > kChecksMax) return bad("more than 256 checks");
    for (const json& item : *checks) {
      auto check = parse_check(item);
      if (!check) return tl::unexpected(check.error());
      health.checks.push_back(std::move(*check));
    }
  }
  return result(fields, std::move(health));
}

} // namespace ductl::agent
