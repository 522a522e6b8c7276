#include "tests/ductl/simulated_flock.hpp"

#include <atomic>
#include <future>
#include <gmock/gmock.h>

namespace ductl::reconcile {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kDucks = 5;

TEST(Reconcile, RaisesADarkFlockInOnePassAndFindsNothingMoreToDo) {
  SimulatedFlock flock(kDucks);
  const Desired desired = SimulatedFlock::desired(kDucks);
  const ReconcileReport first = reconcile(flock, desired, {});
  EXPECT_TRUE(first.converged());
  EXPECT_EQ(first.actions, 11);
  EXPECT_EQ(first.bytes_sent, kDucks * 10 * SimulatedFlock::kSliceBytes);
  const ReconcileReport second = reconcile(flock, desired, {});
  EXPECT_TRUE(second.converged());
  EXPECT_EQ(second.actions, 0);
  EXPECT_EQ(second.bytes_sent, 0u);
}

TEST(Reconcile, SendsADeadDuckItsOwnSlicesAndNothingElse) {
  SimulatedFlock flock(kDucks);
  const Desired desired = SimulatedFlock::desired(kDucks);
  ASSERT_TRUE(reconcile(flock, desired, {}).converged());
  flock.kill(3);
  const ReconcileReport report = reconcile(flock, desired, {});
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.bytes_sent, desired.ducks[3].bytes);
  EXPECT_EQ(report.actions, 3); // start, fill, the engine
}

TEST(Reconcile, WorksOnTheOtherDucksWhenOneDoesNotStartButStartsNoEngine) {
  SimulatedFlock flock(kDucks);
  flock.ducks[2].refuses_to_start = 1;
  const Desired desired = SimulatedFlock::desired(kDucks);
  const ReconcileReport report = reconcile(flock, desired, {});
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, ErrorCode::kPower);
  EXPECT_FALSE(flock.engine_running);
  EXPECT_EQ(report.bytes_sent, 4 * 10 * SimulatedFlock::kSliceBytes);
  EXPECT_TRUE(reconcile(flock, desired, {}).converged());
}

TEST(Reconcile, ReportsADuckThatDiesWhileItIsFilled) {
  SimulatedFlock flock(kDucks);
  bool killed = false;
  flock.before_action = [&](const Action& action) {
    if (action.kind == ActionKind::Fill && action.duck == "duck1" && !std::exchange(killed, true)) flock.kill(1);
  };
  const Desired desired = SimulatedFlock::desired(kDucks);
  const ReconcileReport report = reconcile(flock, desired, {});
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, ErrorCode::kDuckDied);
  const ReconcileReport again = reconcile(flock, desired, {});
  EXPECT_TRUE(again.converged());
  EXPECT_EQ(again.bytes_sent, desired.ducks[1].bytes);
}

TEST(Reconcile, GivesUpOnAFlockThatDoesNotSettle) {
  SimulatedFlock flock(kDucks);
  const Desired desired = SimulatedFlock::desired(kDucks);
  ReconcileOptions options;
  options.on_end = [&](const Action& action, const Expected<std::uint64_t>&) {
    if (action.kind == ActionKind::StartEngine || action.kind == ActionKind::RestartEngine) flock.ducks[0].held = 0;
  };
  const ReconcileReport report = reconcile(flock, desired, options);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_THAT(report.errors[0].message, HasSubstr("does not settle"));
}

TEST(Reconcile, FinishesTheRunningActionAndStopsWhenInterrupted) {
  SimulatedFlock flock(kDucks);
  std::atomic<bool> interrupted = false;
  ReconcileOptions options;
  options.booting_max = options.filling_max = 1;
  options.interrupted = [&] { return interrupted.load(); };
  options.on_begin = [&](const Action& action) {
    if (action.kind == ActionKind::Fill) interrupted = true;
  };
  const Desired desired = SimulatedFlock::desired(kDucks);
  const ReconcileReport report = reconcile(flock, desired, options);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, ErrorCode::kCancelled);
  EXPECT_EQ(std::count_if(flock.ducks.begin(), flock.ducks.end(), [](const auto& duck) { return duck.held == 10; }), 1);
  EXPECT_FALSE(flock.engine_running);
  interrupted = false;
  EXPECT_TRUE(reconcile(flock, desired, {}).converged());
}

TEST(Reconcile, BootsAndFillsNoMoreDucksAtOnceThanAllowed) {
  SimulatedFlock flock(kDucks);
  std::atomic<int> booting = 0, filling = 0, booting_most = 0, filling_most = 0;
  ReconcileOptions options;
  options.booting_max = 1;
  options.filling_max = 3;
  options.on_begin = [&](const Action& action) { // one at a time, so that the largest needs no exchange
    const bool fill = action.kind == ActionKind::Fill;
    if (const int now = ++(fill ? filling : booting); now > (fill ? filling_most : booting_most)) {
      (fill ? filling_most : booting_most) = now;
    }
  };
  options.on_end = [&](const Action& action, const Expected<std::uint64_t>&) {
    --(action.kind == ActionKind::Fill ? filling : booting);
  };
  EXPECT_TRUE(reconcile(flock, SimulatedFlock::desired(kDucks), options).converged());
  EXPECT_EQ(booting_most, 1);
  EXPECT_LE(filling_most, 3);
}

// Hands of a flock whose dark ducks come only once `live` has been filled.
class DarkUntilFilled final : public FlockHands {
public:
  DarkUntilFilled(SimulatedFlock& flock, std::string live) : flock_(flock), live_(std::move(live)) {}
  Observed observe(const Desired& desired) override { return flock_.observe(desired); }
  Expected<std::uint64_t> act(const Desired& desired, const Action& action) override {
    if (action.kind == ActionKind::StartAgent && seen_.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
      return fail(ErrorCode::kPower, "the live duck was not filled");
    auto done = flock_.act(desired, action);
    if (action.kind == ActionKind::Fill && action.duck == live_) filled_.set_value();
    return done;
  }

private:
  SimulatedFlock& flock_;
  const std::string live_;
  std::promise<void> filled_;
  const std::shared_future<void> seen_ = filled_.get_future().share();
};

TEST(Reconcile, DarkDucksHoldUpNoLiveOne) {
  SimulatedFlock flock(kDucks);
  const Desired desired = SimulatedFlock::desired(kDucks);
  ASSERT_TRUE(reconcile(flock, desired, {}).converged());
  for (std::size_t i = 0; i + 1 < kDucks; ++i) flock.kill(i);
  flock.ducks[kDucks - 1].held = 0;
  DarkUntilFilled hands(flock, SimulatedFlock::name(kDucks - 1));
  ReconcileOptions options;
  options.booting_max = options.filling_max = 1;
  const ReconcileReport report = reconcile(hands, desired, options);
  EXPECT_TRUE(report.converged()) << report.errors.front().text();
}

TEST(Reconcile, DoesNothingAtAllWhileAStrangerSitsOnADucksPort) {
  SimulatedFlock flock(kDucks);
  flock.ducks[4].foreign = true;
  const ReconcileReport report = reconcile(flock, SimulatedFlock::desired(kDucks), {});
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.actions, 0);
  EXPECT_FALSE(flock.ducks[0].on);
}

TEST(Reconcile, LowersAFlockAndFindsNothingMoreToDo) {
  SimulatedFlock flock(kDucks);
  Desired desired = SimulatedFlock::desired(kDucks);
  ASSERT_TRUE(reconcile(flock, desired, {}).converged());
  desired.goal = Goal::Down;
  const ReconcileReport report = reconcile(flock, desired, {});
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.actions, 6);
  EXPECT_EQ(reconcile(flock, desired, {}).actions, 0);
}

TEST(Reconcile, StartsNobodyWhileOneThatLeftTheInventoryMayStillHoldAnAddress) {
  SimulatedFlock flock(kDucks);
  flock.leavers = {"gone"};
  std::vector<ActionKind> begun;
  ReconcileOptions options;
  options.on_begin = [&](const Action& action) { begun.push_back(action.kind); };
  EXPECT_TRUE(reconcile(flock, SimulatedFlock::desired(kDucks), options).converged());
  ASSERT_EQ(begun.size(), 12u);
  EXPECT_EQ(begun.front(), ActionKind::StopAgent);
}

// Something of everything that can befall a flock.
class Misfortune {
public:
  explicit Misfortune(std::uint32_t seed) : random_(seed) {}
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  void strike(SimulatedFlock& flock) {
    const std::size_t duck = random_() % flock.ducks.size();
    if (flock.ducks[duck].foreign) return;
    switch (random_() % 8) {
    case 0: flock.kill(duck); break;
    case 1: flock.ducks[duck].held = flock.ducks[duck].held / 2; break;
    case 2: flock.ducks[duck].model_id = "another"; break;
    case 3: flock.ducks[duck].version = "0"; break;
    case 4: flock.ducks[duck].session_tag = 0; break;
    case 5: flock.engine_broken = flock.engine_running; break;
    case 6:
      flock.engine_died = flock.engine_died || flock.engine_running;
      flock.engine_running = flock.engine_broken = false;
      break;
    case 7: flock.ducks[duck].refuses_to_start = 1; break;
    }
  }

private:
  std::mt19937 random_;
};

class ReconcileSeeds : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(ReconcileSeeds, SettlesOnceMisfortunesEndAndThenDoesNothing) {
  constexpr std::uint32_t kSeedsEach = 250;
  for (std::uint32_t seed = GetParam() * kSeedsEach; seed < (GetParam() + 1) * kSeedsEach; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Misfortune misfortune(seed);
    SimulatedFlock flock(1 + seed % 9);
    const Desired desired = SimulatedFlock::desired(flock.ducks.size(), 1 + seed % 13);
    flock.before_action = [&](const Action&) {
      if (misfortune.chance(15)) misfortune.strike(flock);
    };
    ReconcileOptions one_thread; // the order of events is the seed's alone
    one_thread.booting_max = one_thread.filling_max = 1;
    for (int commands = 0; commands < 6; ++commands) {
      (void)reconcile(flock, desired, one_thread); // may fail: that is the point
      misfortune.strike(flock);
    }
    flock.before_action = [](const Action&) {};
    for (SimulatedDuck& duck : flock.ducks) duck.refuses_to_start = 0;
    ASSERT_THAT(reconcile(flock, desired, one_thread).errors, IsEmpty());
    const ReconcileReport again = reconcile(flock, desired, one_thread);
    ASSERT_THAT(again.errors, IsEmpty());
    ASSERT_EQ(again.actions, 0);
    ASSERT_EQ(again.bytes_sent, 0u);
    for (std::size_t i = 0; i < flock.ducks.size(); ++i) ASSERT_EQ(flock.ducks[i].held, desired.ducks[i].slices);
    ASSERT_TRUE(flock.engine_running && !flock.engine_broken);
  }
}

INSTANTIATE_TEST_SUITE_P(TwoThousand, ReconcileSeeds, ::testing::Range(0u, 8u));

} // namespace
} // namespace ductl::reconcile
