#include "tests/ductl/simulated_flock.hpp"

#include <gmock/gmock.h>

namespace ductl::reconcile {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> words(const Plan& plan) {
  std::vector<std::string> result;
  for (const Action& action : plan.actions) {
    const char* kind = "";
    switch (action.kind) {
    case ActionKind::StopEngine: kind = "stop engine"; break;
    case ActionKind::StartEngine: kind = "start engine"; break;
    case ActionKind::RestartEngine: kind = "restart engine"; break;
    case ActionKind::StartAgent: kind = "start "; break;
    case ActionKind::RestartAgent: kind = "restart "; break;
    case ActionKind::StopAgent: kind = "stop "; break;
    case ActionKind::Wake: kind = "wake "; break;
    case ActionKind::Reboot: kind = "reboot "; break;
    case ActionKind::Adopt: kind = "adopt "; break;
    case ActionKind::CheckHealth: kind = "check "; break;
    case ActionKind::PowerOff: kind = "power off "; break;
    case ActionKind::Fill: kind = "fill "; break;
    }
    result.push_back(kind + action.duck);
  }
  return result;
}

struct PlannerTest : ::testing::Test {
  SimulatedFlock flock{3};
  Desired desired = SimulatedFlock::desired(3);
  Plan plan() { return plan_actions(desired, flock.observe(desired)); }
  void raise() { ASSERT_TRUE(reconcile(flock, desired, {}).converged()); }
};

TEST_F(PlannerTest, StartsAndFillsEveryDuckOfADarkFlockThenTheEngine) {
  const Plan result = plan();
  EXPECT_THAT(words(result),
              ElementsAre("start duck0", "fill duck0", "start duck1", "fill duck1", "start duck2", "fill duck2", "start engine"));
  EXPECT_EQ(result.actions[1].bytes, 10 * SimulatedFlock::kSliceBytes);
  EXPECT_EQ(result.ducks_unchanged, 0);
}

TEST_F(PlannerTest, FindsNothingToDoInAFlockThatIsAsDesired) {
  raise();
  const Plan result = plan();
  EXPECT_THAT(result.actions, IsEmpty());
  EXPECT_EQ(result.ducks_unchanged, 3);
}

TEST_F(PlannerTest, RestartsOnlyTheDuckThatDiedAndTheEngine) {
  raise();
  flock.kill(1);
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("start duck1", "fill duck1", "restart engine"));
  EXPECT_THAT(result.actions[0].reason, HasSubstr("has ended"));
  EXPECT_EQ(result.ducks_unchanged, 2);
}

TEST_F(PlannerTest, FillsADuckThatForgotSomeOfItsSlicesWithJustThose) {
  raise();
  flock.ducks[2].held = 7;
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("fill duck2", "restart engine"));
  EXPECT_EQ(result.actions[0].slices, 3u);
  EXPECT_EQ(result.actions[0].bytes, 3 * SimulatedFlock::kSliceBytes);
}

TEST_F(PlannerTest, RefillsADuckThatHoldsAnotherModel) {
  raise();
  flock.ducks[0].model_id = "another";
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("fill duck0", "restart engine"));
  EXPECT_EQ(result.actions[0].slices, 10u);
  EXPECT_THAT(result.actions[0].reason, HasSubstr("another model"));
}

TEST_F(PlannerTest, RestartsAnAgentOfAnotherVersion) {
  raise();
  flock.ducks[1].version = "0";
  EXPECT_THAT(words(plan()), ElementsAre("restart duck1", "fill duck1", "restart engine"));
}

TEST_F(PlannerTest, RestartsAnAgentThatHasAnotherDataPort) {
  raise();
  for (agent::ServingDuck& duck : desired.serving.ducks) duck.data_port = 7500;
  Observed observed = flock.observe(desired);
  observed.ducks[0].hello->data_port = 7500;
  const Plan result = plan_actions(desired, observed);
  EXPECT_THAT(words(result), ElementsAre("restart duck1", "fill duck1", "restart duck2", "fill duck2", "restart engine"));
  EXPECT_EQ(result.actions[0].reason, "has data port 7422, wanted is 7500");
  desired.serving.ducks[1].data_port = desired.serving.ducks[2].data_port = 0; // wherever the kernel put it
  EXPECT_THAT(words(plan_actions(desired, observed)), Not(Contains(HasSubstr("restart duck"))));
}

TEST_F(PlannerTest, RestartsAnAgentWhoseProgramWasRebuilt) {
  raise();
  flock.ducks[1].outdated = true;
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("restart duck1", "fill duck1", "restart engine"));
  EXPECT_EQ(result.actions[0].reason, "the program was rebuilt");
  raise();
  EXPECT_THAT(plan().actions, IsEmpty());
}

TEST_F(PlannerTest, RestartsOnlyTheEngineWhenOnlyItsProgramWasRebuilt) {
  raise();
  flock.engine_outdated = true;
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("restart engine"));
  EXPECT_EQ(result.actions[0].reason, "the program was rebuilt");
  raise();
  EXPECT_THAT(plan().actions, IsEmpty());
}

TEST_F(PlannerTest, RestartsAProcessThatRunsButDoesNotAnswer) {
  raise();
  Observed observed = flock.observe(desired);
  observed.ducks[0].hello.reset();
  observed.ducks[0].hello_error = Error{ErrorCode::kAgentUnreachable, "timed out", "duck0", {}};
  EXPECT_THAT(words(plan_actions(desired, observed)), ElementsAre("restart duck0", "fill duck0", "restart engine"));
}

TEST_F(PlannerTest, LeavesAStrangerAloneAndNamesIt) {
  flock.ducks[1].foreign = true;
  const Plan result = plan();
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_EQ(result.faults[0].code, ErrorCode::kAddressInUse);
  EXPECT_THAT(result.faults[0].message, HasSubstr("flock other"));
  EXPECT_THAT(result.faults[0].place, HasSubstr("duck1, 127.21.1.102:7421"));
}

TEST_F(PlannerTest, TakesAnAnswerThatIsNoAgentsForAPortInUse) {
  Observed observed = flock.observe(desired);
  observed.ducks[2].hello_error = Error{ErrorCode::kAgentRefused, "HTTP status 404", "duck2", {}};
  const Plan result = plan_actions(desired, observed);
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_THAT(result.faults[0].message, HasSubstr("somebody else answers"));
}

TEST_F(PlannerTest, RestartsOnlyTheEngineWhenADuckLostItsSession) {
  raise();
  flock.ducks[1].session_tag = 0;
  EXPECT_THAT(words(plan()), ElementsAre("restart engine"));
}

TEST_F(PlannerTest, RestartsOnlyTheEngineWhenItIsBroken) {
  raise();
  flock.engine_broken = true;
  const Plan result = plan();
  EXPECT_THAT(words(result), ElementsAre("restart engine"));
  EXPECT_EQ(result.actions[0].reason, "a duck died");
}

TEST_F(PlannerTest, RestartsOnlyTheEngineWhenItsSettingsChanged) {
  raise();
  desired.serving.engine.context_length = 100;
  EXPECT_THAT(words(plan()), ElementsAre("restart engine"));
}

TEST_F(PlannerTest, StartsNoEngineForAFlockThatIsOnlyFilled) {
  desired.goal = Goal::Filled;
  EXPECT_THAT(words(plan()), ElementsAre("start duck0", "fill duck0", "start duck1", "fill duck1", "start duck2", "fill duck2"));
}

TEST_F(PlannerTest, TakesTheEngineDownBeforeTheDucks) {
  raise();
  desired.goal = Goal::Down;
  EXPECT_THAT(words(plan()), ElementsAre("stop engine", "stop duck0", "stop duck1", "stop duck2"));
}

TEST_F(PlannerTest, StopsNobodyElsesAgent) {
  raise();
  flock.ducks[0] = {.foreign = true};
  desired.goal = Goal::Down;
  EXPECT_THAT(words(plan()), ElementsAre("stop engine", "stop duck1", "stop duck2"));
}

TEST_F(PlannerTest, StopsAnAgentThatLeftTheInventoryBeforeAnyStarts) {
  flock.leavers = {"gone"};
  const Plan result = plan();
  EXPECT_EQ(words(result).front(), "stop gone");
  EXPECT_EQ(result.actions.front().reason, "is not in the inventory");
  raise();
  EXPECT_THAT(flock.leavers, IsEmpty());
}

TEST_F(PlannerTest, LeavesTheEngineAloneWhenItDoesNotUseWhoLeft) {
  raise();
  flock.leavers = {"gone"};
  EXPECT_THAT(words(plan()), ElementsAre("stop gone"));
}

TEST_F(PlannerTest, TakesEveryoneDownWhoIsRecordedInventoryOrNot) {
  raise();
  flock.leavers = {"gone", "went"};
  desired.goal = Goal::Down;
  EXPECT_THAT(words(plan()), ElementsAre("stop engine", "stop gone", "stop went", "stop duck0", "stop duck1", "stop duck2"));
}

TEST_F(PlannerTest, StartsARenamedDuckWhereItsOldSelfStillAnswers) {
  raise();
  flock.ducks[2] = {};
  flock.leavers = {"old"};
  Observed observed = flock.observe(desired);
  observed.ducks[2].hello = SimulatedFlock::hello_of_leaver("old");
  EXPECT_THAT(words(plan_actions(desired, observed)), ElementsAre("stop old", "start duck2", "fill duck2", "restart engine"));
  observed.ducks[2].hello->pid = 1; // not by our run files
  EXPECT_EQ(plan_actions(desired, observed).faults.size(), 1u);
}

TEST_F(PlannerTest, StopsBothDucksThatExchangedTheirAddressesBeforeEitherStarts) {
  raise();
  Observed observed = flock.observe(desired);
  std::swap(observed.ducks[0].hello, observed.ducks[1].hello);
  EXPECT_THAT(words(plan_actions(desired, observed)), ElementsAre("stop duck0", "start duck0", "fill duck0", "stop duck1",
                                                                  "start duck1", "fill duck1", "restart engine"));
}

TEST_F(PlannerTest, GivesTheEngineThePortsThatAgentsChose) {
  desired.serving.ducks[0].control_port = 0;
  desired.serving.ducks[0].data_port = 0;
  raise();
  const agent::Serving serving = serving_with_ports(desired, flock.observe(desired));
  EXPECT_EQ(serving.ducks[0].control_port, 7421);
  EXPECT_EQ(serving.ducks[0].data_port, 7422);
}

} // namespace
} // namespace ductl::reconcile
