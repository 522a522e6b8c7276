// Since when a check is as it is, and what has become worse.
#include "agent/health/health_watch.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::health {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

class Watched : public testing::Test {
protected:
  Watched() {
    readings.memory_bytes = 8ull << 30;
    readings.interface = "eth0";
    readings.link = LinkState{true, 2500, "full"};
    watch.set_expected({8ull << 30, 0, 2500, ""});
  }
  [[nodiscard]] HealthCheck link(Instant now) const { return *find(watch.report(now), check::kLink); }

  Readings readings;
  const Instant start{1h};
  HealthWatch watch{[this] { return readings; }, true, "abc", "0.1.0", start};
};

TEST_F(Watched, AStateLastsUntilItChanges) {
  EXPECT_THAT(watch.look(start), IsEmpty());
  EXPECT_EQ(link(start + 60s).since_s, 60u);
  readings.link->mbps = 100; // i226-V after a flap
  const auto worse = watch.look(start + 100s);
  ASSERT_EQ(worse.size(), 1u);
  EXPECT_EQ(worse[0].name, check::kLink);
  EXPECT_THAT(watch.look(start + 102s), IsEmpty()); // said once
  EXPECT_EQ(link(start + 130s).state, HealthState::Fail);
  EXPECT_EQ(link(start + 130s).since_s, 30u);
  readings.link->mbps = 2500;
  EXPECT_THAT(watch.look(start + 200s), IsEmpty()); // better is no trouble
  EXPECT_EQ(link(start + 201s).since_s, 1u);
  readings.link->mbps = 100;
  EXPECT_EQ(watch.look(start + 210s).size(), 1u);
}

TEST_F(Watched, ReportsWhoItIsAndHowLongItRuns) {
  (void)watch.look(start);
  const Health health = watch.report(start + 90s, 5);
  EXPECT_EQ(health.image, "abc");
  EXPECT_EQ(health.agent, "0.1.0");
  EXPECT_EQ(health.uptime_s, 90u);
  EXPECT_EQ(find(health, check::kClock)->figure, 5);
  EXPECT_EQ(find(watch.report(start), check::kClock)->state, HealthState::Unknown);
}

TEST_F(Watched, ThrottlingCountsFromTheStart) {
  readings.throttle_count = 40;
  (void)watch.look(start);
  EXPECT_EQ(find(watch.report(start), check::kThrottling)->state, HealthState::Ok);
  readings.throttle_count = 41;
  EXPECT_EQ(watch.look(start + 2s).size(), 1u);
}

TEST_F(Watched, MeasurementsDoNotOverwriteEachOther) {
  watch.set_kernel_rate(9e9);
  Measured measured;
  measured.stream_bytes_s = 11e9;
  watch.set_measured(measured);
  EXPECT_EQ(find(watch.report(start), check::kKernel)->figure, 9'000'000'000);
  EXPECT_EQ(find(watch.report(start), check::kStream)->figure, 11'000'000'000);
}

} // namespace
} // namespace ductl::agent::health
