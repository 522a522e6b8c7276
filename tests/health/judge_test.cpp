// What is said of a machine, from what was read: every state of every check, and never "ok" without a sensor.
#include "agent/health/judge.hpp"

#include <algorithm>
#include <gmock/gmock.h>

namespace ductl::agent::health {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kGib = 1u << 30;

// A duck that has nothing wrong, on iron.
Facts healthy() {
  Facts facts;
  facts.netbooted = true;
  facts.image = std::string(64, 'a');
  facts.expected = {31 * kGib, 4, 2500, facts.image};
  Readings& r = facts.readings;
  r.memory_bytes = 31 * kGib;
  r.cores = 4;
  r.cpu_name = "Intel(R) N100";
  r.avx2 = true;
  r.clock_max_khz = 3'400'000;
  r.throttle_count = 7;
  r.celsius = 52;
  r.celsius_sensor = "x86_pkg_temp";
  r.interface = "eth0";
  r.link = LinkState{true, 2500, "full"};
  r.wake_on_lan = WakeOnLan{true, true};

  facts.throttle_count_first = 7;
  facts.clock_skew_ms = 12;
  facts.measured.memory_tested_bytes = 30 * kGib;
  facts.measured.memory_bad_words = 0;
  facts.measured.clock_hz = 2.9e9;
  facts.measured.stream_bytes_s = 11.8e9;
  facts.measured.kernel_bytes_s = 9.1e9;
  facts.measured.last_panic = "";
  return facts;
}

HealthCheck check_of(const Facts& facts, const char* name) {
  Health health;
  health.checks = judge(facts);
  const HealthCheck* found = find(health, name);
  return found == nullptr ? HealthCheck{} : *found;
}

TEST(Judge, AHealthyDuckHasNothingToSay) {
  for (const HealthCheck& check : judge(healthy())) {
    EXPECT_EQ(check.state, HealthState::Ok) << check.name;
    EXPECT_THAT(check.advice, IsEmpty()) << check.name;
    EXPECT_THAT(check.value, Not(IsEmpty())) << check.name;
  }
}

TEST(Judge, AMachineWithoutSensorsIsUnknownAndSaysWhy) {
  for (const bool netbooted : {false, true}) {
    Facts bare;
    bare.netbooted = netbooted;
    for (const HealthCheck& check : judge(bare)) {
      EXPECT_EQ(check.state, HealthState::Unknown) << check.name;
      EXPECT_THAT(check.advice, Not(IsEmpty())) << check.name;
    }
  }
}

TEST(Judge, WithoutExpectationsMemoryIsUnknownAndSlowLinksAreStillSeen) {
  Facts facts = healthy();
  facts.expected = {};
  EXPECT_EQ(check_of(facts, check::kMemory).state, HealthState::Unknown);
  EXPECT_EQ(check_of(facts, check::kMemory).figure, 31 * std::int64_t{kGib});
  EXPECT_EQ(check_of(facts, check::kImage).state, HealthState::Unknown);
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Ok);
  facts.readings.link->mbps = 100;
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Warn);
}

TEST(Judge, HalfTheMemoryIsAModuleThatIsNotSeated) {
  Facts facts = healthy();
  facts.readings.memory_bytes = 15 * kGib;
  const HealthCheck half = check_of(facts, check::kMemory);
  EXPECT_EQ(half.state, HealthState::Fail);
  EXPECT_EQ(half.value, "15.0 GiB");
  EXPECT_EQ(half.expected, "31.0 GiB");
  EXPECT_THAT(half.advice, HasSubstr("seat the memory module"));
  facts.readings.memory_bytes = 29 * kGib;
  EXPECT_EQ(check_of(facts, check::kMemory).state, HealthState::Warn);
  facts.readings.memory_bytes = 64 * kGib;
  EXPECT_EQ(check_of(facts, check::kMemory).state, HealthState::Ok);
}

TEST(Judge, BadWordsOfMemoryFail) {
  Facts facts = healthy();
  facts.measured.memory_bad_words = 3;
  facts.measured.memory_bad_place = "word 5 of block 2";
  EXPECT_EQ(check_of(facts, check::kMemoryTest).state, HealthState::Fail);
  EXPECT_THAT(check_of(facts, check::kMemoryTest).value, HasSubstr("3 bad words, the first word 5 of block 2"));
  facts.measured.memory_bad_words = 0;
  facts.measured.memory_tested_bytes = 0;
  EXPECT_EQ(check_of(facts, check::kMemoryTest).state, HealthState::Unknown);
}

TEST(Judge, LinksOfTheWrongSpeedOrDuplexFail) {
  Facts facts = healthy();
  facts.readings.link->mbps = 100;
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Fail);
  EXPECT_EQ(check_of(facts, check::kLink).figure, 100);
  EXPECT_THAT(check_of(facts, check::kLink).advice, HasSubstr("re-plug"));
  facts.readings.link = LinkState{true, 2500, "half"};
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Fail);
  facts.readings.link = LinkState{false, 0, ""};
  EXPECT_EQ(check_of(facts, check::kLink).value, "no link");
  facts.readings.link = LinkState{true, 0, ""}; // virtio
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Unknown);
  facts.readings.link.reset();
  EXPECT_EQ(check_of(facts, check::kLink).state, HealthState::Fail);
}

TEST(Judge, WakeOnLanMustBeArmed) {
  Facts facts = healthy();
  facts.readings.wake_on_lan = WakeOnLan{true, false};
  EXPECT_EQ(check_of(facts, check::kWakeOnLan).value, "not armed");
  EXPECT_EQ(check_of(facts, check::kWakeOnLan).state, HealthState::Fail);
  facts.readings.wake_on_lan = WakeOnLan{false, false};
  EXPECT_EQ(check_of(facts, check::kWakeOnLan).value, "not supported");
}

TEST(Judge, CoresClockAndInstructionsAreCompared) {
  Facts facts = healthy();
  facts.readings.cores = 2;
  EXPECT_EQ(check_of(facts, check::kCpu).state, HealthState::Fail);
  facts = healthy();
  facts.readings.avx2 = false;
  EXPECT_EQ(check_of(facts, check::kCpu).state, HealthState::Warn);
  facts = healthy();
  facts.measured.clock_hz = 0.8e9;
  EXPECT_EQ(check_of(facts, check::kCpuClock).state, HealthState::Warn);
  EXPECT_THAT(check_of(facts, check::kCpuClock).advice, HasSubstr("power limits"));
  facts.readings.clock_max_khz.reset();
  EXPECT_EQ(check_of(facts, check::kCpuClock).state, HealthState::Unknown);
}

TEST(Judge, HeatWarnsAndThenFails) {
  Facts facts = healthy();
  facts.readings.celsius = 85;
  EXPECT_EQ(check_of(facts, check::kTemperature).state, HealthState::Warn);
  facts.readings.celsius = 95;
  EXPECT_EQ(check_of(facts, check::kTemperature).state, HealthState::Fail);
  facts.readings.throttle_count = 9;
  EXPECT_EQ(check_of(facts, check::kThrottling).state, HealthState::Warn);
  EXPECT_EQ(check_of(facts, check::kThrottling).figure, 2);
}

TEST(Judge, AClockThatWasYearsOffIsAnEmptyCoinCell) {
  Facts facts = healthy();
  facts.clock_found_ms = std::int64_t{-3650} * 86'400'000;
  const HealthCheck clock = check_of(facts, check::kClock);
  EXPECT_EQ(clock.state, HealthState::Warn);
  EXPECT_THAT(clock.advice, HasSubstr("CR2032"));
  facts.clock_found_ms = 0;
  facts.clock_skew_ms = -2500;
  EXPECT_EQ(check_of(facts, check::kClock).state, HealthState::Warn);
  EXPECT_EQ(check_of(facts, check::kClock).figure, -2500);
}

TEST(Judge, AnotherImageAndAPanicOnRecordAreShown) {
  Facts facts = healthy();
  facts.expected.image = std::string(64, 'b');
  EXPECT_EQ(check_of(facts, check::kImage).value, "aaaaaaaaaaaa");
  EXPECT_EQ(check_of(facts, check::kImage).expected, "bbbbbbbbbbbb");
  EXPECT_EQ(check_of(facts, check::kImage).state, HealthState::Warn);
  facts.measured.last_panic = "Kernel panic - not syncing: Attempted to kill init!";
  EXPECT_EQ(check_of(facts, check::kLastBoot).state, HealthState::Warn);
  EXPECT_THAT(check_of(facts, check::kLastBoot).value, HasSubstr("Attempted to kill init"));
}

} // namespace
} // namespace ductl::agent::health
