#include "ductl/power/foreground.hpp"
#include "ductl/power/launch.hpp"

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <set>
#include <thread>
#include <unistd.h>

namespace ductl::power {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kReadyLimit{10'000};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct ProcessTest : ::testing::Test {
  std::filesystem::path folder;
  std::vector<ProcessRecord> started;

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ductl-process-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override {
    for (const ProcessRecord& record : started) EXPECT_TRUE(stop_process(record, milliseconds(0)));
    std::filesystem::remove_all(folder);
  }

  // A shell script in the place of an agent; descriptor 3 holds the secret, 4 is the ready pipe.
  Launched launch_script(const std::string& script, const std::string& secret = {}) {
    auto launched = launch({.program = "/bin/sh", .arguments = {"-c", script}, .secret = secret, .output = output()});
    EXPECT_TRUE(launched) << launched.error().text();
    started.push_back(launched->record);
    return std::move(*launched);
  }
  Expected<ReadyReport> await(
      const Launched& launched, milliseconds limit = kReadyLimit,
      const std::function<bool()>& interrupted = [] { return false; }) {
    return await_ready(launched.ready, limit, ErrorCode::kPower, "duck test", folder / "test.log", output(), interrupted);
  }
  std::filesystem::path output() const { return folder / "test.out"; }
};

TEST_F(ProcessTest, IsReadyWhenItSaysSoAndTellsItsPorts) {
  const Launched launched = launch_script(R"(echo '{"ready":true,"control_port":11,"data_port":12}' >&4; exec sleep 60)");
  const auto ready = await(launched);
  ASSERT_TRUE(ready) << ready.error().text();
  EXPECT_EQ(ready->control_port, 11);
  EXPECT_EQ(ready->data_port, 12);
  EXPECT_TRUE(is_running(launched.record));
}

TEST_F(ProcessTest, IsNobodysChildHereAndInASessionOfItsOwn) {
  const Launched launched = launch_script(R"(echo '{"ready":true}' >&4; exec sleep 60)");
  ASSERT_TRUE(await(launched));
  EXPECT_NE(getsid(launched.record.pid), getsid(0));
  EXPECT_THAT(text_of("/proc/" + std::to_string(launched.record.pid) + "/status"),
              Not(HasSubstr("PPid:\t" + std::to_string(getpid()) + "\n")));
}

TEST_F(ProcessTest, GetsTheSecretByDescriptorAndNowhereElse) {
  const std::string seen = (folder / "seen").string();
  const Launched launched = launch_script("cat <&3 >" + seen + R"(; echo '{"ready":true}' >&4; exec sleep 60)", "the-secret");
  ASSERT_TRUE(await(launched));
  EXPECT_EQ(text_of(seen), "the-secret");
  const std::string proc = "/proc/" + std::to_string(launched.record.pid);
  EXPECT_THAT(text_of(proc + "/cmdline") + text_of(proc + "/environ"), Not(HasSubstr("the-secret")));
}

TEST_F(ProcessTest, InheritsNoOtherDescriptor) {
  const int leak = dup(STDOUT_FILENO); // without close-on-exec
  const Launched launched = launch_script(R"(echo '{"ready":true}' >&4; exec sleep 60)");
  ASSERT_TRUE(await(launched));
  close(leak);
  std::set<std::string> open;
  const std::set<std::string> expected{"0", "1", "2", "4"};
  for (int i = 0; i < 5000 && open != expected; ++i) { // while `sleep` is loaded, the loader's files are open too
    open.clear();
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(launched.record.pid) + "/fd")) {
      open.insert(entry.path().filename());
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(open, expected);
}

TEST_F(ProcessTest, GivesTheChildsOwnErrorWithTheLogsName) {
  const Launched launched = launch_script(
      R"(echo '{"ready":false,"error":{"code":"D0303","message":"port 7421 is taken","place":"","next":"stop it"}}' >&4)");
  const auto ready = await(launched);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::kAddressInUse);
  EXPECT_EQ(ready.error().message, "duck test: port 7421 is taken");
  EXPECT_EQ(ready.error().place, (folder / "test.log").string());
  EXPECT_EQ(ready.error().next, "stop it");
}

TEST_F(ProcessTest, AnInterruptionEndsTheWaitForOneThatIsNotReady) {
  int asked = 0;
  const auto ready = await(launch_script("exec sleep 60"), kReadyLimit, [&] { return ++asked > 2; });
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

TEST_F(ProcessTest, TellsWhatAProcessPrintedBeforeItEndedUnready) {
  const auto ready = await(launch_script("echo first; echo 'cannot go on' >&2; exit 3"));
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::kPower);
  EXPECT_THAT(ready.error().message, AllOf(HasSubstr("ended before it was ready"), HasSubstr("cannot go on")));
}

TEST_F(ProcessTest, DoesNotWaitForEverForAProcessThatSaysNothing) {
  const auto ready = await(launch_script("exec sleep 60"), milliseconds(50));
  ASSERT_FALSE(ready);
  EXPECT_THAT(ready.error().message, HasSubstr("did not become ready"));
}

TEST_F(ProcessTest, RefusesAProgramThatIsNotThere) {
  const auto launched = launch({.program = folder / "nothing", .arguments = {}, .output = output()});
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().place, (folder / "nothing").string());
}

TEST_F(ProcessTest, EndsOnSigterm) {
  const Launched launched = launch_script(R"(echo '{"ready":true}' >&4; exec sleep 60)");
  ASSERT_TRUE(await(launched));
  ASSERT_TRUE(stop_process(launched.record, milliseconds(5000)));
  EXPECT_FALSE(is_running(launched.record));
  EXPECT_TRUE(stop_process(launched.record, milliseconds(5000))); // again: nothing to do
}

TEST_F(ProcessTest, IsKilledWhenItIgnoresSigterm) {
  const Launched launched = launch_script(R"(trap '' TERM; echo '{"ready":true}' >&4; while :; do sleep 0.05; done)");
  ASSERT_TRUE(await(launched));
  ASSERT_TRUE(stop_process(launched.record, milliseconds(100)));
  EXPECT_FALSE(is_running(launched.record));
}

TEST_F(ProcessTest, NeverSignalsAProcessThatOnlyHasTheSamePid) {
  ProcessRecord other = record_of(getpid()).value();
  ++other.start_time_ticks;
  EXPECT_FALSE(is_running(other));
  EXPECT_TRUE(stop_process(other, milliseconds(0))); // and this test goes on
  other = record_of(getpid()).value();
  other.boot = "another boot";
  EXPECT_TRUE(stop_process(other, milliseconds(0)));
}

TEST_F(ProcessTest, KeepsItsRecordInAFile) {
  ProcessRecord record = record_of(getpid()).value();
  record.control_port = 7421;
  record.api_port = 65535;
  record.program = program_file("/bin/sh");
  record.image = "b1b1";
  ASSERT_TRUE(save_record(record, folder / "run.json"));
  EXPECT_EQ(load_record(folder / "run.json"), record);
  EXPECT_FALSE(std::filesystem::exists(folder / "run.json.part"));
  remove_record(folder / "run.json");
  EXPECT_FALSE(load_record(folder / "run.json"));
}

TEST_F(ProcessTest, IsOutdatedOnceItsProgramWasBuiltAnew) {
  const std::filesystem::path program = folder / "program";
  std::filesystem::copy_file("/bin/sh", program);
  auto launched =
      launch({.program = program, .arguments = {"-c", R"(echo '{"ready":true}' >&4; exec sleep 60)"}, .output = output()});
  ASSERT_TRUE(launched) << launched.error().text();
  started.push_back(launched->record);
  EXPECT_FALSE(is_outdated(launched->record, program));
  std::filesystem::remove(program);
  EXPECT_FALSE(is_outdated(launched->record, program)); // nothing to start instead
  std::filesystem::copy_file("/bin/sh", program);
  EXPECT_TRUE(is_outdated(launched->record, program));
  ProcessRecord of_before = launched->record; // by a ductl that kept no program
  of_before.program = {};
  EXPECT_TRUE(is_outdated(of_before, program));
}

TEST_F(ProcessTest, TakesARunFileThatIsNoneForNone) {
  for (const char* text : {"", "{", "[]", "{\"pid\":\"x\"}", "{\"pid\":-1,\"boot\":\"b\"}", "{\"pid\":5}"}) {
    std::ofstream(folder / "run.json", std::ios::trunc) << text;
    EXPECT_FALSE(load_record(folder / "run.json")) << text;
  }
}

TEST(ReadyLine, IsNothingElseThanAReadyReport) {
  for (const char* line : {"", "hello", "[]", "{}", R"({"ready":1})"}) EXPECT_FALSE(parse_ready_line(line)) << line;
  const auto ready = parse_ready_line(R"({"ready":true,"api_port":7411,"control_port":70000})");
  ASSERT_TRUE(ready && *ready);
  EXPECT_EQ((*ready)->api_port, 7411);
  EXPECT_EQ((*ready)->control_port, 0); // no port number
}

TEST(Foreground, PassesTheExitCodeOn) {
  EXPECT_EQ(run_foreground("/bin/sh", {"-c", "exit 7"}, [] { return false; }).value(), 7);
  EXPECT_EQ(run_foreground("/bin/sh", {"-c", "kill -KILL $$"}, [] { return false; }).value(), 128 + 9);
  EXPECT_FALSE(run_foreground("/no/such/program", {}, [] { return false; }));
}

TEST(Foreground, TerminatesTheProgramWhenInterrupted) {
  EXPECT_EQ(run_foreground("/bin/sh", {"-c", "exec sleep 60"}, [] { return true; }).value(), 128 + 15);
}

TEST(Captured, HoldsAllThatTheProgramWrote) {
  const auto captured = run_captured("/bin/sh", {"-c", "seq 1 100000; echo apart >&2; exit 3"}, [] { return false; });
  ASSERT_TRUE(captured) << captured.error().text();
  EXPECT_EQ(captured->code, 3);
  EXPECT_EQ(captured->out.size(), 588'895u); // more than a pipe holds
  EXPECT_TRUE(captured->out.ends_with("\n100000\n"));
  EXPECT_FALSE(run_captured("/no/such/program", {}, [] { return false; }));
}

} // namespace
} // namespace ductl::power
