#include "agent/health/judge.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace ductl::agent::health {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMemoryFailShare = 0.90, kMemoryWarnShare = 0.97; // firmware and kernel keep some of what is soldered on
constexpr double kClockWarnShare = 0.60;                           // of the most that the CPU can; measured on a loaded core
constexpr double kWarmCelsius = 85, kHotCelsius = 95;
constexpr std::int64_t kSkewWarnMs = 2000, kDayMs = 86'400'000;
constexpr int kSlowMbps = 1000; // below it a link is slow whatever the inventory says

HealthCheck make(const char* name, HealthState state, std::string value, std::string expected = {}, std::string advice = {}) {
  HealthCheck check;
  check.name = name;
  check.state = state;
  check.value = std::move(value);
  check.expected = std::move(expected);
  check.advice = std::move(advice);
  return check;
}

HealthCheck unknown(const char* name, std::string why) { return make(name, HealthState::Unknown, {}, {}, std::move(why)); }

HealthCheck with(HealthCheck check, double figure) {
  check.figure = std::llround(figure);
  return check;
}

std::string gib(double bytes) {
  return bytes < kGib ? fmt::format("{:.0f} MiB", bytes / kGib * 1024) : fmt::format("{:.1f} GiB", bytes / kGib);
}

HealthCheck memory(const Facts& facts) {
  const auto found = static_cast<double>(facts.readings.memory_bytes);
  const auto wanted = static_cast<double>(facts.expected.memory_bytes);
  if (found == 0) return unknown(check::kMemory, "/proc/meminfo does not tell");
  HealthCheck check = with(make(check::kMemory, HealthState::Ok, gib(found)), found);
  if (wanted == 0) {
    check.state = HealthState::Unknown;
    check.advice = "nothing to compare with: the inventory does not say how much this duck has";
    return check;
  }
  check.expected = gib(wanted);
  if (found >= wanted * kMemoryWarnShare) return check;
  const bool much = found < wanted * kMemoryFailShare;
  check.state = much ? HealthState::Fail : HealthState::Warn;
  check.advice = much ? "switch it off, seat the memory module anew, and look in the BIOS how much it finds"
                      : "graphics memory in the BIOS may be set too high; else correct the inventory";
  return check;
}

HealthCheck memory_test(const Facts& facts) {
  const Measured& measured = facts.measured;
  if (!measured.memory_tested_bytes || !measured.memory_bad_words)
    return unknown(check::kMemoryTest,
                   facts.netbooted ? "it was not run" : "this machine is not the agent's own, so its memory is not tested");
  const auto tested = static_cast<double>(*measured.memory_tested_bytes);
  if (*measured.memory_bad_words != 0)
    return with(make(check::kMemoryTest, HealthState::Fail,
                     fmt::format("{} bad words, the first {}", *measured.memory_bad_words, measured.memory_bad_place), "none",
                     "replace the memory module; take this duck out of the inventory until then"),
                tested);
  if (tested == 0) return unknown(check::kMemoryTest, "too little memory is free to test any");
  return with(make(check::kMemoryTest, HealthState::Ok, gib(tested) + " without a fault", "none"), tested);
}

std::string link_text(const LinkState& link) {
  return fmt::format("{}{}", link.mbps == 0 ? std::string("speed not told") : fmt::format("{} Mb/s", link.mbps),
                     link.duplex.empty() ? "" : " " + link.duplex + " duplex");
}

HealthCheck link(const Facts& facts) {
  const Readings& readings = facts.readings;
  const int wanted = facts.expected.link_mbps;
  if (readings.interface.empty()) return unknown(check::kLink, "this agent's network is its machine's, not its own");
  const std::string expected = wanted == 0 ? "" : fmt::format("{} Mb/s full duplex", wanted);
  if (!readings.link)
    return make(check::kLink, HealthState::Fail, "interface " + readings.interface + " is gone", expected, "restart the duck");
  const LinkState& state = *readings.link;
  if (!state.carrier) return make(check::kLink, HealthState::Fail, "no link", expected, "look at the cable and the switch port");
  HealthCheck check = make(check::kLink, HealthState::Ok, link_text(state), expected);
  if (state.mbps == 0) {
    check.state = HealthState::Unknown;
    check.advice = "the driver of this card does not tell its speed (virtual cards do not)";
    return check;
  }
  check.figure = state.mbps;
  if (state.duplex == "half") {
    check.state = HealthState::Fail;
    check.advice = "the switch port is set to a fixed speed: set it to auto";
  } else if (wanted != 0 && state.mbps < wanted) {
    check.state = HealthState::Fail;
    check.advice = "re-plug the cable (i226-V falls back after a link flap); then try another cable and another switch port";
  } else if (wanted == 0 && state.mbps < kSlowMbps) {
    check.state = HealthState::Warn;
    check.advice = "slow for any duck: re-plug the cable, then try another one";
  }
  return check;
}

HealthCheck wake(const Facts& facts) {
  const auto& reading = facts.readings.wake_on_lan;
  if (!facts.netbooted) return unknown(check::kWakeOnLan, "this machine is not the agent's to switch off");
  if (!reading) return unknown(check::kWakeOnLan, "the driver of this card does not tell (virtual cards do not)");
  if (reading->armed) return make(check::kWakeOnLan, HealthState::Ok, "armed", "armed");
  return make(check::kWakeOnLan, HealthState::Fail, reading->supported ? "not armed" : "not supported", "armed",
              "in the BIOS: Wake on LAN on, ErP off. Switched off, this duck wakes by its power button only");
}

HealthCheck cpu(const Facts& facts) {
  const Readings& readings = facts.readings;
  const int wanted = facts.netbooted ? facts.expected.cores : 0;
  if (readings.cores == 0) return unknown(check::kCpu, "/proc/cpuinfo does not tell");
  HealthCheck check =
      with(make(check::kCpu, HealthState::Ok,
                fmt::format("{} cores{}, {}", readings.cores, readings.avx2 ? " with AVX2, FMA and F16C" : "", readings.cpu_name),
                wanted == 0 ? "AVX2, FMA, F16C" : fmt::format("{} cores with AVX2, FMA and F16C", wanted)),
           readings.cores);
  if (!readings.avx2) {
    check.state = HealthState::Warn;
    check.advice = "this CPU lacks AVX2, FMA or F16C: it computes with slow scalar kernels";
  }
  if (wanted != 0 && readings.cores < wanted) {
    check.state = HealthState::Fail;
    check.advice = "look in the BIOS for disabled cores, or correct the inventory";
  }
  return check;
}

HealthCheck cpu_clock(const Facts& facts) {
  const auto& hertz = facts.measured.clock_hz;
  if (!hertz)
    return unknown(check::kCpuClock, facts.netbooted ? "it was not measured" : "not measured on a machine that others use");
  const double mhz = *hertz / 1e6;
  HealthCheck check = with(make(check::kCpuClock, HealthState::Ok, fmt::format("{:.0f} MHz under load", mhz)), mhz);
  if (!facts.readings.clock_max_khz) {
    check.state = HealthState::Unknown;
    check.advice = "nothing to compare with: there is no cpufreq driver that says what the CPU can do";
    return check;
  }
  const double most = static_cast<double>(*facts.readings.clock_max_khz) / 1000;
  check.expected = fmt::format("up to {:.0f} MHz", most);
  if (mhz >= most * kClockWarnShare) return check;
  check.state = HealthState::Warn;
  check.advice = "look at the power limits in the BIOS (PL1, PL2), at the fan, and at the power brick";
  return check;
}

HealthCheck throttling(const Facts& facts) {
  if (!facts.readings.throttle_count) return unknown(check::kThrottling, "this CPU has no counter of it (virtual ones do not)");
  const auto events = static_cast<double>(*facts.readings.throttle_count - facts.throttle_count_first);
  if (events <= 0) return with(make(check::kThrottling, HealthState::Ok, "none", "none"), 0);
  return with(make(check::kThrottling, HealthState::Warn, fmt::format("{:.0f} times since the agent's start", events), "none",
                   "too hot: clean the fan, give it air, lower the power limits in the BIOS"),
              events);
}

HealthCheck temperature(const Facts& facts) {
  if (!facts.readings.celsius) return unknown(check::kTemperature, "this machine shows no temperature sensor");
  const double celsius = *facts.readings.celsius;
  HealthCheck check =
      with(make(check::kTemperature, HealthState::Ok, fmt::format("{:.0f} C ({})", celsius, facts.readings.celsius_sensor),
                fmt::format("below {:.0f} C", kWarmCelsius)),
           celsius);
  if (celsius < kWarmCelsius) return check;
  check.state = celsius >= kHotCelsius ? HealthState::Fail : HealthState::Warn;
  check.advice = "clean the fan, give it air, lower the power limits in the BIOS";
  return check;
}

HealthCheck wall_clock(const Facts& facts) {
  if (!facts.clock_skew_ms) return unknown(check::kClock, "the host did not say what time it is");
  const std::int64_t skew = *facts.clock_skew_ms, found = facts.clock_found_ms.value_or(0);
  HealthCheck check = make(check::kClock, HealthState::Ok, fmt::format("{} ms", skew), fmt::format("within {} ms", kSkewWarnMs));
  check.figure = skew;
  if (std::abs(skew) > kSkewWarnMs) {
    check.state = HealthState::Warn;
    check.advice = "times in this duck's log are wrong; ductl up sets its clock when it adopts it";
  } else if (std::abs(found) > kDayMs) {
    check.state = HealthState::Warn;
    check.value += fmt::format(", {} days when it was adopted", found / kDayMs);
    check.advice = "its coin cell (CR2032) is empty: replace it, or the BIOS forgets its settings as well";
  }
  return check;
}

HealthCheck rate(const char* name, const std::optional<double>& bytes_s, const char* why) {
  if (!bytes_s) return unknown(name, why);
  return with(make(name, HealthState::Ok, fmt::format("{:.1f} GB/s", *bytes_s / 1e9)), *bytes_s);
}

HealthCheck image(const Facts& facts) {
  if (!facts.netbooted) return unknown(check::kImage, "this agent runs from no image");
  if (facts.image.empty()) return unknown(check::kImage, "the image holds no id");
  const std::string& wanted = facts.expected.image;
  if (wanted.empty()) {
    HealthCheck check = unknown(check::kImage, "nothing to compare with: the host has not said which image it serves");
    check.value = facts.image.substr(0, 12);
    return check;
  }
  const bool same = wanted == facts.image;
  return make(check::kImage, same ? HealthState::Ok : HealthState::Warn, facts.image.substr(0, 12), wanted.substr(0, 12),
              same ? "" : "an older or newer image than the host serves: restart this duck");
}

HealthCheck last_boot(const Facts& facts) {
  const auto& panic = facts.measured.last_panic;
  if (!facts.netbooted || !panic) return unknown(check::kLastBoot, "this machine's firmware keeps no record of a panic");
  if (panic->empty()) return make(check::kLastBoot, HealthState::Ok, "no panic on record");
  return make(check::kLastBoot, HealthState::Warn, *panic, "no panic on record",
              "if it comes again: test its memory, then replace it");
}

} // namespace

std::vector<HealthCheck> judge(const Facts& facts) {
  return {memory(facts),
          memory_test(facts),
          link(facts),
          wake(facts),
          cpu(facts),
          cpu_clock(facts),
          throttling(facts),
          temperature(facts),
          wall_clock(facts),
          rate(check::kStream, facts.measured.stream_bytes_s,
               facts.netbooted ? "it was not measured" : "not measured on a machine that others use"),
          rate(check::kKernel, facts.measured.kernel_bytes_s, "no round was computed yet"),
          image(facts),
          last_boot(facts)};
}

} // namespace ductl::agent::health
