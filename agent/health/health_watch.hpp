// The health of the machine that an agent runs on: what it read last, how each check stands, and since when.
//
// look() reads and judges; report() hands out. Both may be called by any thread at any time.
#pragma once

#include "agent/health/judge.hpp"
#include "inventory/clock.hpp"

#include <functional>
#include <map>
#include <mutex>

namespace ductl::agent::health {

class HealthWatch {
public:
  using Read = std::function<Readings()>;
  // `netbooted` and `image` as in Facts. `now` begins the uptime.
  HealthWatch(Read read, bool netbooted, std::string image, std::string agent_version, Instant now);

  void set_expected(const Expectations& expected);
  void set_measured(const Measured& measured);         // once, at the start
  void set_kernel_rate(std::optional<double> bytes_s); // of the rounds so far
  void set_clock_found(std::int64_t skew_ms);          // when it was adopted, before the clock was set

  // Reads and judges anew. Returns the checks whose state has become worse since the last time (none the first time).
  std::vector<HealthCheck> look(Instant now);
  // As of the last look(). `skew_ms`: this duck's clock less that of whoever asks.
  [[nodiscard]] Health report(Instant now, std::optional<std::int64_t> skew_ms = std::nullopt) const;

private:
  struct Standing {
    HealthState state = HealthState::Unknown;
    Instant since{};
  };
  const Read read_;
  const std::string version_;
  const Instant started_;
  mutable std::mutex mutex_; // what follows
  Facts facts_;
  bool has_looked_ = false;
  std::map<std::string, Standing> standing_;
};

} // namespace ductl::agent::health
