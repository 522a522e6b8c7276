#include "tests/end_to_end/tiny_flock.hpp"

#include "weights/slice.hpp"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::uint64_t kSliceBytes = weights::slice_layout(TinyModel{}.hidden).bytes;

TEST(FlockLife, GoesUpServesAndGoesDownLeavingNothing) {
  TinyFlock flock;
  EXPECT_EQ(flock.json({"status", "-o", "json"}, 4).at("serving"), false);

  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("schema"), "ductl/up/v1");
  EXPECT_EQ(up.at("changed"), true);
  EXPECT_EQ(up.at("actions"), 7); // three ducks started and filled, the engine
  EXPECT_EQ(up.at("bytes_sent"), kTinyLayers * kTinySlicesEach * kSliceBytes);
  EXPECT_GT(up.at("first_token_ms"), 0);

  const auto status = flock.json({"status", "-o", "json"});
  EXPECT_EQ(status.at("schema"), "ductl/status/v1");
  EXPECT_EQ(status.at("serving"), true);
  ASSERT_EQ(status.at("ducks").size(), 3u);
  for (const auto& duck : status.at("ducks")) {
    EXPECT_EQ(duck.at("stage"), "serving");
    EXPECT_EQ(duck.at("slices_held"), duck.at("slices_wanted"));
    EXPECT_EQ(duck.at("slices_held"), kTinyLayers * kTinySlicesEach / 3);
    EXPECT_TRUE(duck.at("reason").is_null());
  }

  const ProgramResult answer = flock.ductl({"run", "--max-tokens", "16", "hello"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, Not(IsEmpty()));

  const auto again = flock.json({"up", "-o", "json"});
  EXPECT_EQ(again.at("changed"), false);
  EXPECT_EQ(again.at("actions"), 0);
  EXPECT_EQ(again.at("bytes_sent"), 0);
  EXPECT_TRUE(again.at("first_token_ms").is_null());
  EXPECT_THAT(flock.ductl({"up"}).out, HasSubstr("Nothing to do: 3/3 ducks match inventory."));
  EXPECT_EQ(flock.ductl({"plan", "--detailed-exitcode"}).status, 0);

  EXPECT_EQ(flock.processes().size(), 4u);
  const ProgramResult down = flock.ductl({"down"});
  EXPECT_EQ(down.status, 0) << down.err;
  EXPECT_THAT(down.err, AllOf(HasSubstr("- stop engine"), HasSubstr("- stop duck01"), HasSubstr("- stop duck03")));
  EXPECT_THAT(flock.processes(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(flock.state() / "run"));
  EXPECT_FALSE(std::filesystem::exists(flock.state() / "lock"));
  EXPECT_FALSE(std::filesystem::exists(flock.state() / "serving.json"));
  EXPECT_EQ(flock.ductl({"status"}).status, 4);
}

TEST(FlockLife, PlanSaysWhatUpWillDo) {
  TinyFlock flock;
  const ProgramResult plan = flock.ductl({"plan", "--detailed-exitcode"});
  EXPECT_EQ(plan.status, 2) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("+ start duck01"), HasSubstr("~ fill duck03: 8 slices"), HasSubstr("+ start engine"),
                              HasSubstr("Plan: 3 to start, 3 to fill")));
  EXPECT_THAT(flock.processes(), IsEmpty());
}

TEST(FlockLife, TheKeyIsTheOwnersAloneAndInNoCommandLine) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const auto key_file = flock.state() / "key";
  EXPECT_EQ(std::filesystem::status(key_file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string key = [&] {
    const ProgramResult cat = run_program({"/bin/cat", key_file.string()});
    return cat.out.substr(0, 64);
  }();
  ASSERT_EQ(key.size(), 64u);
  EXPECT_THAT(processes_naming(key), IsEmpty());
}

TEST(FlockLife, ADuckThatDiesWhileDecodingEndsTheAnswerAndUpBringsItBack) {
  TinyFlock flock({.limits_toml = "dead_after_ms = 1000"});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  std::chrono::steady_clock::duration took{};
  ProgramResult result;
  for (int attempt = 0; attempt < 5; ++attempt) { // an answer that had ended before its duck did shows nothing
    RunningProgram answer(flock.argv({"run", "--max-tokens", "3900", "--temperature", "0", "hello"}), flock.options());
    const auto rounds = [&] { return flock.json({"status", "-o", "json"}).at("ducks").at(1).at("rounds").get<std::uint64_t>(); };
    const std::uint64_t before = rounds();
    for (int i = 0; i < 1000 && rounds() < before + 10 * kTinyLayers; ++i) std::this_thread::sleep_for(1ms);
    const int pid = flock.pid_of("duck02");
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    const auto killed = std::chrono::steady_clock::now();
    result = answer.wait();
    took = std::chrono::steady_clock::now() - killed;
    if (result.status != 0) break;
    ASSERT_EQ(flock.ductl({"up"}).status, 0);
  }
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("duck02"), HasSubstr("layer"), HasSubstr((flock.state() / "log/duck02.log").string())));
  // dead_after and a second; the rest is for the programs' own ends on a busy machine. Without the bound it would last for ever.
  EXPECT_LT(took, 1000ms + 1000ms + 3000ms);
  const auto status = flock.json({"status", "-o", "json"}, 4);
  EXPECT_EQ(status.at("serving"), false);
  EXPECT_EQ(status.at("ducks").at(1).at("stage"), "off");

  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("bytes_sent"), kTinyLayers * kTinySlicesEach / 3 * kSliceBytes);
  EXPECT_EQ(up.at("actions"), 3); // duck02 started and filled, the engine restarted
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
  EXPECT_EQ(flock.ductl({"run", "--max-tokens", "4", "hello"}).status, 0);
}

TEST(FlockLife, ADeadDuckThatNobodyAskedIsSeenByStatus) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  ASSERT_EQ(kill(flock.pid_of("duck03"), SIGKILL), 0);
  const ProgramResult status = flock.ductl({"status"});
  EXPECT_EQ(status.status, 4);
  EXPECT_THAT(status.out, AllOf(HasSubstr("has lost duck03"), HasSubstr("flock.toml up`"), HasSubstr("log/duck03.log")));
}

TEST(FlockLife, ADeadEngineIsStartedAgainAndNothingIsSent) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  ASSERT_EQ(kill(flock.pid_of("duck-engine"), SIGKILL), 0);
  EXPECT_EQ(flock.ductl({"status"}).status, 4);
  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("actions"), 1);
  EXPECT_EQ(up.at("bytes_sent"), 0);
}

TEST(FlockLife, AnotherDuckInTheInventoryTakesOnlyItsShare) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.ducks = 3});
  EXPECT_EQ(flock.ductl({"status"}).status, 3); // serves, without the third
  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("bytes_sent"), kTinyLayers * kTinySlicesEach / 3 * kSliceBytes);
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
}

TEST(FlockLife, ADuckThatLeavesTheInventoryIsStoppedAndOnlyItsSlicesMove) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.ducks = 2});
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("- stop duck03 (is not in the inventory)"));
  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("bytes_sent"), kTinyLayers * kTinySlicesEach / 3 * kSliceBytes);
  EXPECT_EQ(flock.pid_of("duck03"), 0);
  EXPECT_EQ(flock.processes().size(), 3u);
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
  EXPECT_EQ(flock.json({"up", "-o", "json"}).at("actions"), 0);
  EXPECT_EQ(flock.ductl({"down"}).status, 0);
  EXPECT_THAT(flock.processes(), IsEmpty());
}

TEST(FlockLife, ARenamedDuckTakesThePlaceOfItsOldSelf) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.names = "duck[01-02,09]"});
  EXPECT_EQ(flock.ductl({"status"}).status, 3); // the engine serves with the old self
  const auto up = flock.json({"up", "-o", "json"});
  EXPECT_EQ(up.at("bytes_sent"), kTinyLayers * kTinySlicesEach / 3 * kSliceBytes);
  EXPECT_EQ(flock.pid_of("duck03"), 0);
  EXPECT_GT(flock.pid_of("duck09"), 0);
  EXPECT_EQ(flock.processes().size(), 4u);
  EXPECT_EQ(flock.ductl({"down"}).status, 0);
  EXPECT_THAT(flock.processes(), IsEmpty());
}

TEST(FlockLife, DownStopsDucksThatLeftTheInventoryToo) {
  TinyFlock flock;
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.ducks = 1});
  EXPECT_THAT(flock.ductl({"down"}).err,
              AllOf(HasSubstr("- stop duck01"), HasSubstr("- stop duck02"), HasSubstr("- stop duck03")));
  EXPECT_THAT(flock.processes(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(flock.state() / "run"));
}

TEST(FlockLife, AChangedDataPortIsSeenByStatusAndCarriedOutByUp) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  replace_in(flock.folder() / "flock.toml", "[power]", "[agent]\ndata_port = 7522\n[power]");
  EXPECT_THAT(flock.ductl({"status"}).out, HasSubstr("has data port 7422, the inventory says 7522"));
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("~ restart duck01 (has data port 7422, wanted is 7522)"));
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  for (const auto& duck : flock.json({"status", "-o", "json"}).at("ducks")) EXPECT_EQ(duck.at("data_port"), 7522);
}

TEST(FlockLife, AChangedControlPortIsSeenByStatusAndCarriedOutByUp) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  replace_in(flock.folder() / "flock.toml", "[power]", "[agent]\ncontrol_port = 7524\n[power]");
  EXPECT_THAT(flock.ductl({"status"}).out, HasSubstr("has control port 7421, the inventory says 7524"));
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("~ restart duck01 (has control port 7421, the inventory says 7524)"));
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
}

TEST(FlockLife, AChangedAddressIsSeenByStatusAndCarriedOutByUp) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const std::string first = flock.address(1), moved = first.substr(0, first.rfind('.')) + ".151";
  replace_in(flock.folder() / "flock.toml", "[101-102]", "[151-152]");
  const std::string text = "runs at " + first + ", the inventory says " + moved;
  EXPECT_THAT(flock.ductl({"status"}).out, HasSubstr(text));
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("~ restart duck01 (" + text + ")"));
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
}

TEST(FlockLife, KernelsThatThisMachineLacksAreRefusedWhileTheFlockServesOn) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const int engine = flock.pid_of("duck-engine"), duck = flock.pid_of("duck01");
  replace_in(flock.folder() / "flock.toml", "[power]", "[agent]\ndata_port = 7522\n[power]"); // so that agents must start anew
  ProgramOptions slip = flock.options();
  slip.environment["DUCTL_KERNELS"] = "avx3";
  const ProgramResult up = run_program(flock.argv({"up"}), slip);
  EXPECT_EQ(up.status, 64) << up.err;
  EXPECT_THAT(up.err, AllOf(HasSubstr("avx3"), HasSubstr("$DUCTL_KERNELS")));
  EXPECT_EQ(flock.pid_of("duck-engine"), engine);
  EXPECT_EQ(flock.pid_of("duck01"), duck);
}

TEST(FlockLife, APortOfSomebodyElseIsRefusedWhileTheFlockServesOn) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const int engine = flock.pid_of("duck-engine");
  const int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7523);
  ASSERT_EQ(inet_pton(AF_INET, flock.address(2).c_str(), &address.sin_addr), 1);
  ASSERT_EQ(bind(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  replace_in(flock.folder() / "flock.toml", "[power]", "[agent]\ndata_port = 7523\n[power]");
  const ProgramResult up = flock.ductl({"up"});
  EXPECT_EQ(up.status, 1);
  EXPECT_THAT(up.err, AllOf(HasSubstr("another program has UDP port 7523"), HasSubstr("duck02")));
  EXPECT_EQ(flock.pid_of("duck-engine"), engine);
  close(stranger);
  EXPECT_EQ(flock.ductl({"up"}).status, 0);
}

TEST(FlockLife, AnAddressOfNobodyIsRefusedWhileTheFlockServesOn) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const int engine = flock.pid_of("duck-engine");
  const std::string subnet = flock.address(1).substr(0, flock.address(1).rfind('.'));
  const std::string text = text_of(flock.folder() / "flock.toml");
  for (std::size_t i = 0; i < 2; ++i) replace_in(flock.folder() / "flock.toml", subnet, "192.0.2"); // RFC 5737: nobody's
  const ProgramResult up = flock.ductl({"up"});
  EXPECT_EQ(up.status, 1);
  EXPECT_THAT(up.err, AllOf(HasSubstr("duck01 cannot run at 192.0.2.101"), HasSubstr("help: ")));
  std::ofstream(flock.folder() / "flock.toml") << text;
  EXPECT_EQ(flock.ductl({"status"}).status, 0);
  EXPECT_EQ(flock.pid_of("duck-engine"), engine);
}

TEST(FlockLife, StatusShowsADuckThatLeftTheInventoryAndRuns) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  flock.write_inventory({.ducks = 1});
  EXPECT_THAT(flock.ductl({"status"}).out, HasSubstr("Duck duck02 runs"));
  const auto status = nlohmann::json::parse(flock.ductl({"status", "-o", "json"}).out);
  ASSERT_EQ(status.at("not_in_inventory").size(), 1u);
  EXPECT_EQ(status.at("not_in_inventory").at(0).at("name"), "duck02");
}

TEST(FlockLife, ARebuiltProgramIsRestartedByTheNextUp) {
  TinyFlock flock({.ducks = 2});
  const OwnPrograms programs(flock);
  ASSERT_EQ(programs.ductl({"up"}).status, 0);
  EXPECT_EQ(programs.json({"up", "-o", "json"}).at("actions"), 0);
  programs.rebuild("duck-engine");
  const auto engine = programs.json({"up", "-o", "json"});
  EXPECT_EQ(engine.at("actions"), 1);
  EXPECT_EQ(engine.at("bytes_sent"), 0);
  programs.rebuild("duck-agent");
  EXPECT_THAT(programs.ductl({"plan"}).out, HasSubstr("~ restart duck02 (the program was rebuilt)"));
  EXPECT_EQ(programs.json({"up", "-o", "json"}).at("actions"), 5); // two ducks restarted and filled, the engine
  EXPECT_EQ(programs.json({"up", "-o", "json"}).at("actions"), 0);
}

TEST(FlockLife, AnInterruptedUpFinishesWhatItBeganAndTheNextGoesOn) {
  TinyFlock flock;
  const OwnPrograms programs(flock);
  const std::filesystem::path go = programs.hold("duck-agent"); // no agent is ready before this file is there
  {
    RunningProgram up(programs.argv({"up"}), flock.options());
    for (int i = 0; i < 10000 && flock.pid_of("duck01") == 0; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_GT(flock.pid_of("duck01"), 0);
    up.signal(SIGINT);
    std::ofstream{go};
    const ProgramResult result = up.wait();
    EXPECT_EQ(result.status, 130) << result.err;
    EXPECT_THAT(result.err, HasSubstr("interrupted"));
  }
  EXPECT_EQ(flock.pid_of("duck-engine"), 0);
  const int first = flock.pid_of("duck01");
  EXPECT_GT(first, 0);
  EXPECT_EQ(programs.ductl({"up"}).status, 0);
  EXPECT_EQ(flock.pid_of("duck01"), first);
  EXPECT_EQ(programs.ductl({"status"}).status, 0);
}

TEST(FlockLife, AnInterruptionEndsTheWaitForTheEnginesCheck) {
  TinyFlock flock;
  const OwnPrograms programs(flock);
  (void)programs.hold("duck-engine"); // the check never ends by itself
  RunningProgram up(programs.argv({"up"}), flock.options());
  const auto checks = [&] { return std::filesystem::exists(flock.state() / "log/duck-engine.check.out"); };
  for (int i = 0; i < 10000 && !checks(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(checks());
  up.signal(SIGINT);
  const ProgramResult result = up.wait();
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted: stopping"));
  EXPECT_THAT(flock.processes(), IsEmpty());
}

TEST(FlockLife, WithAnApiKeyOnlyThoseWhoHaveItAreAnswered) {
  TinyFlock flock;
  std::filesystem::create_directories(flock.state());
  std::ofstream(flock.state() / "api-keys") << "an-api-key-of-at-least-22-characters\n";
  std::filesystem::permissions(flock.state() / "api-keys",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  EXPECT_EQ(flock.ductl({"run", "hello", "--max-tokens", "4"}).status, 0);
  ProgramOptions stranger = flock.options();
  stranger.environment["DUCTL_API_KEY"] = "not-the-key-but-long-enough-to-be-one";
  const ProgramResult refused = run_program(flock.argv({"run", "hello", "--max-tokens", "4"}), stranger);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, IsEmpty());
}

TEST(FlockLife, TwoFlocksOfOneMachineNeverHearEachOther) {
  TinyFlock first({.ducks = 3}), second({.ducks = 2});
  write_tiny_model(second.model(), 2);
  const std::vector<std::string> ask{"run", "--max-tokens", "64", "--temperature", "0", "hello"};
  const auto alone = [&](const TinyFlock& flock) {
    EXPECT_EQ(flock.ductl({"up"}).status, 0);
    const ProgramResult answer = flock.ductl(ask);
    EXPECT_EQ(answer.status, 0) << answer.err;
    return answer.out;
  };
  const std::string first_alone = alone(first);
  ASSERT_EQ(first.ductl({"down"}).status, 0);
  const std::string second_alone = alone(second);
  ASSERT_EQ(first.ductl({"up"}).status, 0);
  {
    RunningProgram a(first.argv(ask), first.options()), b(second.argv(ask), second.options());
    EXPECT_EQ(a.wait().out, first_alone);
    EXPECT_EQ(b.wait().out, second_alone);
  }
  EXPECT_NE(first_alone, second_alone);
  for (const TinyFlock* flock : {&first, &second}) {
    const auto status = flock->json({"status", "-o", "json"});
    for (const auto& duck : status.at("ducks")) {
      EXPECT_GT(duck.at("rounds"), 0);
      EXPECT_EQ(duck.at("frames").at("foreign"), 0);
    }
  }
}

TEST(FlockLife, ADuckHoldsNoMoreThanItsMemoryAndSaysWhatItLacks) {
  TinyFlock flock({.ducks = 2, .ducks_toml = "memory_gib = 0.5\ncores = 1000"});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  const auto status = flock.json({"status", "-o", "json"});
  for (const auto& duck : status.at("ducks")) {
    EXPECT_EQ(duck.at("memory_bytes"), 512u << 20);
    EXPECT_EQ(duck.at("stage"), "serving");
    EXPECT_THAT(duck.at("reason").get<std::string>(), AllOf(HasSubstr("cores, expected 1000"), Not(HasSubstr("memory"))));
  }
}

TEST(FlockLife, DuctlLogsWhatItDidAndWhy) {
  TinyFlock flock({.ducks = 2});
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  ASSERT_EQ(kill(flock.pid_of("duck02"), SIGKILL), 0);
  ASSERT_EQ(flock.ductl({"up"}).status, 0);
  ASSERT_EQ(flock.ductl({"down"}).status, 0);
  const ProgramResult log = run_program({"/bin/cat", (flock.state() / "log/ductl.log").string()});
  EXPECT_THAT(log.out, AllOf(HasSubstr("start duck01 (is off)"), HasSubstr("start duck02 (its process"), HasSubstr("has ended)"),
                             HasSubstr("stop the engine (runs)"), HasSubstr("as desired")));
}

TEST(FlockLife, OnlyOneCommandAtATimeChangesAFlock) {
  TinyFlock flock;
  std::filesystem::create_directories(flock.state());
  const int lock = open((flock.state() / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const ProgramResult second = flock.ductl({"up"});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr("another ductl is working on this flock"));
  close(lock);
  EXPECT_EQ(flock.ductl({"up"}).status, 0);
}

} // namespace
} // namespace ductl::test
