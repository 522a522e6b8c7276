#include "ductl/reconcile/diagnosis.hpp"

#include "tests/ductl/simulated_flock.hpp"

#include <gmock/gmock.h>

namespace ductl::reconcile {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct DiagnosisTest : ::testing::Test {
  SimulatedFlock flock{2};
  Desired desired = SimulatedFlock::desired(2);
  std::vector<std::string> serving_ducks{"duck0", "duck1"};
  Diagnosis look() { return diagnose(desired, flock.observe(desired), serving_ducks); }
  void raise() { ASSERT_TRUE(reconcile(flock, desired, {}).converged()); }
};

TEST_F(DiagnosisTest, CallsAFlockThatServesServing) {
  raise();
  const Diagnosis result = look();
  EXPECT_TRUE(result.serving);
  EXPECT_FALSE(result.degraded);
  EXPECT_EQ(result.ducks[1].stage, Stage::Serving);
  EXPECT_THAT(result.ducks[1].reason, IsEmpty());
}

TEST_F(DiagnosisTest, SaysThatNothingWasStarted) {
  serving_ducks.clear();
  const Diagnosis result = look();
  EXPECT_FALSE(result.serving);
  EXPECT_EQ(result.ducks[0].stage, Stage::Off);
  EXPECT_EQ(result.ducks[0].reason, "not started");
  EXPECT_THAT(result.reason, HasSubstr("engine is not started"));
  EXPECT_THAT(result.next, HasSubstr("ductl up"));
}

TEST_F(DiagnosisTest, NamesTheDuckThatTheEngineLost) {
  raise();
  flock.kill(1);
  flock.engine_broken = false; // the engine has not noticed yet
  const Diagnosis result = look();
  EXPECT_FALSE(result.serving);
  EXPECT_THAT(result.reason, HasSubstr("has lost duck1"));
  EXPECT_THAT(result.ducks[1].reason, HasSubstr("has ended"));
  EXPECT_EQ(result.ducks[0].stage, Stage::Serving);
}

TEST_F(DiagnosisTest, ADuckThatDroppedADamagedSliceIsLostToTheEngine) {
  raise();
  --flock.ducks[1].held;
  flock.ducks[1].epoch = 0; // it computes no more
  const Diagnosis result = look();
  EXPECT_FALSE(result.serving);
  EXPECT_THAT(result.reason, HasSubstr("has lost duck1"));
  EXPECT_EQ(result.ducks[1].stage, Stage::Filling);
  EXPECT_THAT(result.next, HasSubstr("ductl up"));
}

TEST_F(DiagnosisTest, TellsTheEnginesOwnReason) {
  raise();
  flock.engine_broken = true;
  EXPECT_THAT(look().reason, HasSubstr("a duck died"));
}

TEST_F(DiagnosisTest, IsDegradedWhenTheInventoryHasADuckThatTheEngineDoesNot) {
  raise();
  serving_ducks = {"duck0"};
  flock.kill(1);
  flock.engine_broken = false;
  const Diagnosis result = look();
  EXPECT_TRUE(result.serving);
  EXPECT_TRUE(result.degraded);
}

TEST_F(DiagnosisTest, CountsTheSlicesThatAreMissing) {
  raise();
  flock.ducks[0].held = 4;
  const Diagnosis result = look();
  EXPECT_EQ(result.ducks[0].stage, Stage::Filling);
  EXPECT_EQ(result.ducks[0].reason, "6 slices are missing");
}

TEST_F(DiagnosisTest, TellsAStrangersAgentFromOurs) {
  flock.ducks[0].foreign = true;
  const Diagnosis result = look();
  EXPECT_EQ(result.ducks[0].stage, Stage::Off);
  EXPECT_THAT(result.ducks[0].reason, HasSubstr("somebody else"));
}

TEST_F(DiagnosisTest, KnowsADuckOfThisFlockInAnothersPlace) {
  raise();
  flock.ducks[1] = {};
  flock.leavers = {"old"};
  Observed observed = flock.observe(desired);
  observed.ducks[1].hello = SimulatedFlock::hello_of_leaver("old");
  const Diagnosis result = diagnose(desired, observed, serving_ducks);
  EXPECT_EQ(result.ducks[1].reason, "duck old of this flock runs in its place");
  EXPECT_EQ(result.ducks[1].next, "run `ductl up`");
}

TEST_F(DiagnosisTest, SaysWhatADuckLacksOfWhatTheInventoryExpects) {
  raise();
  desired.ducks[1].cores = 4;
  desired.ducks[1].memory_bytes = 32ull << 30;
  Observed observed = flock.observe(desired);
  observed.ducks[1].hello->cores = 2;
  observed.ducks[1].hello->memory_bytes = 16ull << 30;
  const Diagnosis result = diagnose(desired, observed, serving_ducks);
  EXPECT_EQ(result.ducks[1].stage, Stage::Serving);
  EXPECT_EQ(result.ducks[1].reason, "has 2 cores, expected 4; has 16.00 GiB of memory, expected 32.00");
  EXPECT_THAT(result.ducks[1].next, HasSubstr("inventory"));
  EXPECT_THAT(result.ducks[0].reason, IsEmpty());
  observed.ducks[1].hello->cores = 4;
  observed.ducks[1].hello->memory_bytes = 33ull << 30;
  EXPECT_THAT(diagnose(desired, observed, serving_ducks).ducks[1].reason, IsEmpty());
}

TEST_F(DiagnosisTest, RemembersSinceWhenADuckIsInItsStage) {
  const WallTime early{std::chrono::seconds(1000)}, late{std::chrono::seconds(2000)};
  Diagnosis first = look();
  const StageHistory history = parse_history(history_text(note_stages(first, {}, early)));
  raise();
  flock.kill(0);
  Diagnosis second = look();
  (void)note_stages(second, history, late);
  EXPECT_EQ(second.ducks[0].since, early); // off then, off now
  EXPECT_EQ(second.ducks[1].since, late);  // off then, serving now
}

TEST_F(DiagnosisTest, TakesAHistoryThatIsNoneForAnEmptyOne) {
  EXPECT_THAT(parse_history(""), IsEmpty());
  EXPECT_THAT(parse_history("[1,2]"), IsEmpty());
  EXPECT_THAT(parse_history(R"({"duck0":{"stage":"flying","since_unix_ms":1},"duck1":3})"), IsEmpty());
}

} // namespace
} // namespace ductl::reconcile
