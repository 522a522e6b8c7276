#include "agent/health/health_watch.hpp"

#include <algorithm>

namespace ductl::agent::health {
namespace {

std::uint64_t seconds(Duration span) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(span).count()));
}

bool is_worse(HealthState from, HealthState to) {
  if (to != HealthState::Warn && to != HealthState::Fail) return false; // a sensor that went away is no news
  return to == HealthState::Fail ? from != HealthState::Fail : from != HealthState::Fail && from != HealthState::Warn;
}

} // namespace

HealthWatch::HealthWatch(Read read, bool netbooted, std::string image, std::string agent_version, Instant now)
    : read_(std::move(read)), version_(std::move(agent_version)), started_(now) {
  facts_.netbooted = netbooted;
  facts_.image = std::move(image);
}

void HealthWatch::set_expected(const Expectations& expected) {
  const std::lock_guard lock(mutex_);
  facts_.expected = expected;
}

void HealthWatch::set_measured(const Measured& measured) {
  const std::lock_guard lock(mutex_);
  const auto kernel = facts_.measured.kernel_bytes_s;
  facts_.measured = measured;
  facts_.measured.kernel_bytes_s = kernel;
}

void HealthWatch::set_kernel_rate(std::optional<double> bytes_s) {
  const std::lock_guard lock(mutex_);
  facts_.measured.kernel_bytes_s = bytes_s;
}

void HealthWatch::set_clock_found(std::int64_t skew_ms) {
  const std::lock_guard lock(mutex_);
  facts_.clock_found_ms = skew_ms;
}

std::vector<HealthCheck> HealthWatch::look(Instant now) {
  Readings readings = read_(); // without the lock: a sensor may be slow
  const std::lock_guard lock(mutex_);
  if (!has_looked_) facts_.throttle_count_first = readings.throttle_count.value_or(0);
  facts_.readings = std::move(readings);
  std::vector<HealthCheck> worse;
  for (HealthCheck& check : judge(facts_)) {
    const auto [standing, is_new] = standing_.try_emplace(check.name, Standing{check.state, now});
    if (is_new || standing->second.state == check.state) continue;
    if (is_worse(standing->second.state, check.state)) worse.push_back(check);
    standing->second = {check.state, now};
  }
  has_looked_ = true;
  return worse;
}

Health HealthWatch::report(Instant now, std::optional<std::int64_t> skew_ms) const {
  const std::lock_guard lock(mutex_);
  Facts facts = facts_;
  facts.clock_skew_ms = skew_ms;
  Health health;
  health.checks = judge(facts);
  for (HealthCheck& check : health.checks) {
    const auto standing = standing_.find(check.name);
    if (standing != standing_.end() && standing->second.state == check.state)
      check.since_s = seconds(now - standing->second.since);
  }
  health.image = facts.image;
  health.agent = version_;
  health.uptime_s = seconds(now - started_);
  return health;
}

} // namespace ductl::agent::health
