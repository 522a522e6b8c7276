// Flocks of machines: planned, raised, diagnosed. A flock in memory that wakes, forgets its key at each boot, and runs old
// images.
#include "ductl/reconcile/diagnosis.hpp"
#include "ductl/reconcile/machines.hpp"
#include "ductl/reconcile/reconciler.hpp"
#include "ductl/reconcile/straggler.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <mutex>
#include <random>

namespace ductl::reconcile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kImage = "b1b1b1b1b1b1b1b1";

struct Machine {
  bool on = false, adopted = false, wakes = true, fit = true;
  std::string flock = "pxe", name = {}, boots_image = kImage, image = {};
  std::uint64_t held = 0;
  std::uint32_t epoch = 0;
  std::uint64_t session_tag = 0;
};

class MachinesInMemory final : public FlockHands {
public:
  std::vector<Machine> ducks;
  bool engine = false;
  std::string serving_text = {};
  std::vector<std::string> done = {}; // "wake duck0"

  explicit MachinesInMemory(std::size_t count) : ducks(count) {}

  [[nodiscard]] Desired desired(Goal goal = Goal::Serving) const {
    Desired desired{.goal = goal, .flock = "pxe", .kind = DuckKind::Machine, .image = kImage, .model_id = "model"};
    desired.serving.flock = "pxe";
    desired.serving.epoch = 1;
    for (std::size_t i = 0; i < ducks.size(); ++i) {
      desired.ducks.push_back({.name = name(i), .slices = 10, .bytes = 1000});
      desired.serving.ducks.push_back({.name = name(i), .address = 0x0a150165, .control_port = 7421, .data_port = 7422});
    }
    return desired;
  }
  static std::string name(std::size_t i) { return "duck" + std::to_string(i); }

  Observed observe(const Desired& desired) override {
    const std::lock_guard lock(mutex_);
    Observed seen;
    for (std::size_t i = 0; i < ducks.size(); ++i) seen.ducks.push_back(look(desired, i));
    seen.engine = {.running = engine, .healthy = engine, .serving_text = serving_text};
    return seen;
  }

  Expected<std::uint64_t> act(const Desired& desired, const Action& action) override {
    const std::lock_guard lock(mutex_);
    if (action.kind == ActionKind::StopEngine) return engine = false, 0;
    if (action.duck.empty()) return start_engine(desired);
    Machine& duck = ducks[static_cast<std::size_t>(std::stoi(action.duck.substr(4)))];
    done.push_back(word(action.kind) + " " + action.duck);
    switch (action.kind) {
    case ActionKind::Wake:
      if (!duck.wakes) return fail(ErrorCode::kPower, "duck did not come up: silent", action.duck);
      return boot(duck);
    case ActionKind::Reboot:
      if (!duck.adopted) return fail(ErrorCode::kAgentRefused, "no key");
      return boot(duck);
    case ActionKind::Adopt:
      if (!duck.on || duck.adopted) return fail(ErrorCode::kAgentRefused, "has a key");
      duck.adopted = true;
      return 0;
    case ActionKind::CheckHealth:
      if (!duck.fit) return fail(ErrorCode::kPower, "not fit", action.duck);
      return 0;
    case ActionKind::PowerOff: duck.on = duck.adopted = false; return 0;
    case ActionKind::Fill:
      if (!duck.adopted) return fail(ErrorCode::kAgentRefused, "no key");
      duck.held = 10, duck.epoch = 1;
      return 1000;
    default: return fail(ErrorCode::kInternal, "not a machine's action");
    }
  }

private:
  static std::string word(ActionKind kind) {
    switch (kind) {
    case ActionKind::Wake: return "wake";
    case ActionKind::Reboot: return "reboot";
    case ActionKind::Adopt: return "adopt";
    case ActionKind::CheckHealth: return "check";
    case ActionKind::PowerOff: return "power-off";
    case ActionKind::Fill: return "fill";
    default: return "?";
    }
  }
  static std::uint64_t boot(Machine& duck) {
    const Machine before = duck;
    duck = {.on = true, .wakes = before.wakes, .fit = before.fit, .boots_image = before.boots_image, .image = before.boots_image};
    return 0;
  }
  ObservedDuck look(const Desired& desired, std::size_t i) const {
    const Machine& duck = ducks[i];
    ObservedDuck seen{.name = name(i), .control_port = 7421};
    if (!duck.on) {
      seen.hello_error = Error{ErrorCode::kAgentUnreachable, "no answer", {}, {}};
      return seen;
    }
    agent::Hello hello;
    hello.adopted = duck.adopted;
    if (duck.adopted) hello.name = duck.name.empty() ? name(i) : duck.name, hello.flock = duck.flock;
    hello.image = duck.image;
    hello.slices_held = duck.held;
    hello.slices_active = duck.epoch != 0 ? duck.held : 0;
    hello.epoch = duck.epoch;
    hello.model_id = duck.held != 0 ? "model" : "";
    hello.session_tag = duck.session_tag;
    hello.data_port = 7422;
    seen.hello = hello;
    if (!duck.adopted || !duck.name.empty()) return seen; // of another name nothing more is asked
    agent::FillPlan fill;
    fill.duck = name(i);
    fill.send.resize(desired.ducks[i].slices - duck.held);
    fill.activate = duck.epoch != 1;
    seen.fill = fill;
    return seen;
  }
  Expected<std::uint64_t> start_engine(const Desired& desired) {
    for (Machine& duck : ducks) {
      if (duck.epoch != 1) return fail(ErrorCode::kEngineStart, "a duck is not filled");
      duck.session_tag = 7;
    }
    engine = true;
    Observed seen;
    for (std::size_t i = 0; i < ducks.size(); ++i) seen.ducks.push_back(look(desired, i));
    serving_text = agent::serving_text(serving_with_ports(desired, seen));
    return 0;
  }
  std::mutex mutex_;
};

std::vector<ActionKind> kinds(const Plan& plan) {
  std::vector<ActionKind> result;
  for (const Action& action : plan.actions) result.push_back(action.kind);
  return result;
}

struct MachinesTest : ::testing::Test {
  MachinesInMemory flock{1};
  Plan plan(Goal goal = Goal::Filled) { return plan_actions(flock.desired(goal), flock.observe(flock.desired(goal))); }
};

TEST_F(MachinesTest, ADarkDuckIsWokenAdoptedLookedAtAndFilled) {
  EXPECT_THAT(kinds(plan()), ElementsAre(ActionKind::Wake, ActionKind::Adopt, ActionKind::CheckHealth, ActionKind::Fill));
  EXPECT_EQ(plan().actions[0].reason, "does not answer");
}

TEST_F(MachinesTest, ADuckThatIsUpIsOnlyAdopted) {
  flock.ducks[0] = {.on = true, .image = kImage};
  EXPECT_THAT(kinds(plan()), ElementsAre(ActionKind::Adopt, ActionKind::CheckHealth, ActionKind::Fill));
}

TEST_F(MachinesTest, AnOldImageIsReplacedByARestart) {
  flock.ducks[0] = {.on = true, .adopted = true, .image = "a0a0a0a0a0a0a0a0", .held = 10, .epoch = 1};
  EXPECT_THAT(kinds(plan()), ElementsAre(ActionKind::Reboot, ActionKind::Adopt, ActionKind::CheckHealth, ActionKind::Fill));
  EXPECT_EQ(plan().actions[0].reason, "runs image a0a0a0a0a0a0, wanted is b1b1b1b1b1b1");
  flock.ducks[0].adopted = false; // a restart needs a key
  EXPECT_THAT(kinds(plan()),
              ElementsAre(ActionKind::Adopt, ActionKind::Reboot, ActionKind::Adopt, ActionKind::CheckHealth, ActionKind::Fill));
}

TEST_F(MachinesTest, AnotherFlocksDuckIsLeftAlone) {
  flock.ducks[0] = {.on = true, .adopted = true, .flock = "other", .image = kImage};
  const Plan result = plan();
  EXPECT_THAT(result.actions, IsEmpty());
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_THAT(result.faults[0].message, HasSubstr("flock other"));
}

TEST_F(MachinesTest, AMachineWithAnotherMacIsNeitherRaisedNorSwitchedOff) {
  for (const bool adopted : {false, true}) {
    flock.ducks[0] = {.on = true, .adopted = adopted, .image = kImage};
    Desired desired = flock.desired(Goal::Filled);
    desired.ducks[0].mac = inventory::parse_mac("52:54:00:21:01:01");
    Observed seen = flock.observe(desired);
    seen.ducks[0].hello->mac = "52:54:00:21:01:02";
    const Plan up = plan_actions(desired, seen);
    EXPECT_THAT(up.actions, IsEmpty());
    ASSERT_EQ(up.faults.size(), 1u);
    EXPECT_THAT(up.faults[0].message, HasSubstr("MAC 52:54:00:21:01:02, the inventory has 52:54:00:21:01:01"));
    EXPECT_THAT(up.faults[0].next, HasSubstr("unplug"));
    EXPECT_THAT(diagnose(desired, seen, {}).ducks.at(0).reason, HasSubstr("another machine"));
    desired.goal = Goal::Down;
    EXPECT_THAT(plan_actions(desired, seen).actions, IsEmpty());
    seen.ducks[0].hello->mac = "52:54:00:21:01:01";
    EXPECT_THAT(kinds(plan_actions(desired, seen)), ElementsAre(ActionKind::PowerOff));
    seen.ducks[0].hello->mac = ""; // an agent that tells none
    EXPECT_THAT(kinds(plan_actions(desired, seen)), ElementsAre(ActionKind::PowerOff));
  }
}

TEST_F(MachinesTest, ARenamedMachineIsRestartedIntoItsNameAndIsOursToSwitchOff) {
  flock.ducks[0] = {.on = true, .adopted = true, .name = "oldname", .image = kImage, .held = 10, .epoch = 1};
  EXPECT_THAT(kinds(plan()), ElementsAre(ActionKind::Reboot, ActionKind::Adopt, ActionKind::CheckHealth, ActionKind::Fill));
  EXPECT_EQ(plan().actions[0].reason, "was adopted as oldname");
  EXPECT_THAT(kinds(plan(Goal::Down)), ElementsAre(ActionKind::PowerOff));
  const DuckDiagnosis told = diagnose(flock.desired(), flock.observe(flock.desired()), {}).ducks.at(0);
  EXPECT_EQ(told.reason, "was adopted as oldname, before it was renamed");
  EXPECT_EQ(told.next, "run `ductl up`");
  flock.ducks[0].flock = "other";
  EXPECT_THAT(plan(Goal::Down).actions, IsEmpty());
  flock.ducks[0].flock = "pxe";
  EXPECT_TRUE(reconcile(flock, flock.desired(), {}).converged());
}

TEST_F(MachinesTest, AnAgentOfAnotherProtocolNeedsAHand) {
  Observed seen = flock.observe(flock.desired());
  seen.ducks[0].hello_error = Error{ErrorCode::kAgentVersion, "speaks control protocol 9", {}, {}};
  const Plan result = plan_actions(flock.desired(Goal::Filled), seen);
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_THAT(result.faults[0].next, HasSubstr("button"));
}

TEST_F(MachinesTest, DownSwitchesOffWhatAnswersAndIsOurs) {
  EXPECT_THAT(plan(Goal::Down).actions, IsEmpty());
  flock.ducks[0] = {.on = true, .image = kImage};
  EXPECT_THAT(kinds(plan(Goal::Down)), ElementsAre(ActionKind::PowerOff));
  flock.ducks[0].adopted = true;
  EXPECT_THAT(kinds(plan(Goal::Down)), ElementsAre(ActionKind::PowerOff));
  flock.ducks[0].flock = "other";
  EXPECT_THAT(plan(Goal::Down).actions, IsEmpty());
}

TEST(MachinesReconcile, AFlockInAnyStateIsRaisedAndASecondPassDoesNothing) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    MachinesInMemory flock(1 + random() % 6);
    for (Machine& duck : flock.ducks) {
      duck.on = random() % 2 != 0;
      duck.adopted = duck.on && random() % 2 != 0;
      if (duck.on) duck.image = random() % 2 != 0 ? kImage : "old";
      if (duck.adopted && random() % 2 != 0) duck.held = 10, duck.epoch = random() % 2;
    }
    const ReconcileReport report = reconcile(flock, flock.desired(), {});
    ASSERT_TRUE(report.converged()) << "seed " << seed << ": " << report.errors.front().text();
    const ReconcileReport again = reconcile(flock, flock.desired(), {});
    EXPECT_TRUE(again.converged());
    EXPECT_EQ(again.actions, 0) << "seed " << seed;
    ASSERT_TRUE(reconcile(flock, flock.desired(Goal::Down), {}).converged());
    EXPECT_TRUE(std::none_of(flock.ducks.begin(), flock.ducks.end(), [](const Machine& duck) { return duck.on; }));
  }
}

TEST(MachinesReconcile, OneMuteDuckAndOneUnfitOneHoldNoOtherUp) {
  MachinesInMemory flock(4);
  flock.ducks[1].wakes = false;
  flock.ducks[2].fit = false;
  const ReconcileReport report = reconcile(flock, flock.desired(), {});
  EXPECT_EQ(report.errors.size(), 2u);
  EXPECT_EQ(flock.ducks[0].held, 10u);
  EXPECT_EQ(flock.ducks[3].held, 10u);
  EXPECT_EQ(flock.ducks[2].held, 0u);
  EXPECT_FALSE(flock.engine);
}

agent::HealthCheck check(const char* name, agent::HealthState state, std::string value, std::string expected = {}) {
  agent::HealthCheck result;
  result.name = name;
  result.state = state;
  result.value = std::move(value);
  result.expected = std::move(expected);
  return result;
}

TEST(HealthFault, NamesTheChecksThatKeepWeightsOffADuckAndNoOther) {
  agent::Health health;
  health.checks = {check("memory", agent::HealthState::Fail, "7.7 GiB", "15.5 GiB"),
                   check("link", agent::HealthState::Warn, "100 Mb/s"), check("temperature", agent::HealthState::Unknown, ""),
                   check("wake-on-lan", agent::HealthState::Fail, "not armed")};
  health.checks[0].advice = "seat its memory again";
  const auto fault = health_fault("duck2", health);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->message, "duck duck2 is not fit to hold weights: memory 7.7 GiB, expected 15.5 GiB");
  EXPECT_EQ(fault->next, "seat its memory again; or say in the inventory what it has");
  health.checks.erase(health.checks.begin());
  EXPECT_FALSE(health_fault("duck2", health));
}

struct MachineDiagnosis : ::testing::Test {
  MachinesInMemory flock{1};
  Observed seen = flock.observe(flock.desired());
  DuckDiagnosis look() { return diagnose(flock.desired(), seen, {}).ducks.at(0); }
};

TEST_F(MachineDiagnosis, ADarkDuckThatNobodyWokeIsOff) {
  EXPECT_EQ(look().stage, Stage::Off);
  EXPECT_EQ(look().next, "run `ductl up`");
}

TEST_F(MachineDiagnosis, ABootIsToldByItsStepAndItsCause) {
  seen.ducks[0].boot =
      ObservedBoot{boot::BootStep::Image, {"has its kernel and no agent yet for 40 s", "look at its screen", false}, false};
  EXPECT_EQ(look().stage, Stage::Image);
  EXPECT_THAT(look().reason, HasSubstr("no agent yet"));
  EXPECT_EQ(look().next, "look at its screen");
}

TEST_F(MachineDiagnosis, AnUnadoptedDuckIsAnAgentAndAnOldImageIsSaid) {
  flock.ducks[0] = {.on = true, .image = "a0a0a0a0a0a0a0a0"};
  seen = flock.observe(flock.desired());
  EXPECT_EQ(look().stage, Stage::Agent);
  EXPECT_THAT(look().reason, HasSubstr("in no flock yet; runs image a0a0a0a0a0a0, wanted is b1b1b1b1b1b1"));
}

TEST_F(MachineDiagnosis, ASlowLinkIsSaidOfADuckThatServes) {
  flock.ducks[0] = {.on = true, .adopted = true, .image = kImage, .held = 10, .epoch = 1};
  seen = flock.observe(flock.desired());
  agent::Health health;
  health.checks = {check("link", agent::HealthState::Warn, "100 Mb/s", "2500 Mb/s"),
                   check("cpu", agent::HealthState::Ok, "4 cores")};
  health.checks[0].advice = "plug its cable in again";
  seen.ducks[0].health = health;
  EXPECT_THAT(look().reason, HasSubstr("link: 100 Mb/s, expected 2500 Mb/s"));
  EXPECT_THAT(look().reason, Not(HasSubstr("cpu")));
}

TEST_F(MachineDiagnosis, DownLeavesWhatIsOnItsWayAndSaysSo) {
  EXPECT_FALSE(booting_left(seen));
  seen.ducks[0].boot = ObservedBoot{boot::BootStep::Image, {}, false};
  EXPECT_FALSE(booting_left(seen));
  seen.ducks[0].boot->under_way = true;
  const auto left = booting_left(seen);
  ASSERT_TRUE(left);
  EXPECT_THAT(left->message, HasSubstr("duck0 (image)"));
  EXPECT_THAT(left->next, HasSubstr("`ductl down` again"));
}

Observed with_streams(const std::vector<std::int64_t>& bytes_a_second) {
  Observed observed;
  for (std::size_t i = 0; i < bytes_a_second.size(); ++i) {
    ObservedDuck duck{.name = "duck" + std::to_string(i)};
    agent::HealthCheck stream = check(agent::check::kStream, agent::HealthState::Ok, "");
    stream.figure = bytes_a_second[i];
    duck.health.emplace().checks = {stream};
    observed.ducks.push_back(duck);
  }
  return observed;
}

TEST(Straggler, IsADuckFarBelowTheMedian) {
  const auto slow = stragglers(with_streams({10'000'000'000, 9'900'000'000, 5'000'000'000, 10'100'000'000}));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow.at("duck2"), "reads memory at 5.00 GB/s, the flock's median is 10.00");
}

TEST(Straggler, TwoDucksHaveNone) {
  EXPECT_THAT(stragglers(with_streams({10, 1})), IsEmpty());
  EXPECT_THAT(stragglers(with_streams({10'000, 9'000, 9'500})), IsEmpty());
}

} // namespace
} // namespace ductl::reconcile
