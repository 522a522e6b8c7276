// ./up in a clone where nothing was built or fetched, on its own inventory: inventory/local.toml. The clone holds this tree's
// ./up, its list of packages and its inventory. What would take minutes is played by scripts that note how they were called:
// cmake and ninja put this build's programs in place, fetch_smollm2 the model that is here already.
#include "tests/programs/terminal.hpp"
#include "tests/support/files.hpp"
#include "tests/support/own_network.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kModel = DUCTL_SMOLLM2, kSource = DUCTL_SOURCE_DIR;

class FreshClone : public ::testing::Test {
protected:
  static void SetUpTestSuite() { enter_own_network(); } // local.toml has fixed ports, which a flock of this machine may hold

  void SetUp() override {
    if (!std::filesystem::exists(kModel / "model.safetensors"))
      GTEST_SKIP() << "run tests/real/fetch_smollm2 " << kModel.string();
    for (const char* file : {"up", ".packages", "inventory/local.toml"}) {
      std::filesystem::create_directories((clone_ / file).parent_path());
      std::filesystem::copy_file(kSource / file, clone_ / file);
    }
    script("bin/cmake", "mkdir -p build/bin && touch build/build.ninja");
    script("bin/ninja", std::string("case \"$*\" in *-n*) [ ! -e build/bin/ductl ] || echo ninja: no work to do.; exit ;; esac\n"
                                    "ln -sf ") +
                            DUCTL_BIN_DIR + "/ductl " + DUCTL_BIN_DIR + "/duck-agent " + DUCTL_BIN_DIR +
                            "/duck-engine build/bin/");
    script("clone/tests/real/fetch_smollm2",
           "[ -e \"$1\" ] || { mkdir -p \"$(dirname \"$1\")\" && ln -s '" + kModel.string() + "' \"$1\"; }");
  }

  void TearDown() override {
    if (!std::filesystem::exists(clone_ / "build/bin/ductl")) return;
    const ProgramResult down =
        run_program({(clone_ / "build/bin/ductl").string(), "-i", local_toml(), "down", "--yes"}, options());
    EXPECT_EQ(down.status, 0) << down.err;
  }

  // Notes its arguments in `calls`, then does `work`.
  void script(const std::string& name, const std::string& work) const {
    const std::filesystem::path file = folder_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\necho " << file.filename() << " \"$@\" >> '" << (folder_.path() / "calls").string() << "'\n"
                        << work << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::string calls() const { return text_of(folder_.path() / "calls"); }
  [[nodiscard]] std::string local_toml() const { return (clone_ / "inventory/local.toml").string(); }

  [[nodiscard]] ProgramOptions options() const {
    ProgramOptions options;
    for (const char* name : {"STATE", "CACHE", "CONFIG"})
      options.environment[std::string("XDG_") + name + "_HOME"] = (folder_.path() / name).string();
    options.environment["PATH"] = (folder_.path() / "bin").string() + ":" + std::getenv("PATH");
    options.environment["DUCTL_INVENTORY"] = options.environment["DUCTL_API_KEY"] = "";
    options.folder = clone_.string();
    options.limit = 120s;
    return options;
  }
  [[nodiscard]] static std::vector<std::string> up(const std::vector<std::string>& prompt) {
    std::vector<std::string> argv{"/usr/bin/env", "-u", "DUCTL_BUILD", "./up"};
    argv.insert(argv.end(), prompt.begin(), prompt.end());
    return argv;
  }

  TempFolder folder_;
  std::filesystem::path clone_ = folder_.path() / "clone";
};

TEST_F(FreshClone, ConfiguresBuildsFetchesAndAnswersOnItsOwnInventory) {
  const ProgramResult first = run_program(up({"What is the capital of France?"}), options());
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "The capital of France is Paris.\n");
  EXPECT_THAT(first.err, AllOf(HasSubstr("inventory: inventory/local.toml"), HasSubstr("Serving: 4/4 ducks")));
  EXPECT_EQ(calls(), "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release\n"
                     "ninja -C build -n ductl duck-agent duck-engine\n"
                     "ninja -C build ductl duck-agent duck-engine\n"
                     "fetch_smollm2 build/models/smollm2-135m-instruct\n");

  const ProgramResult second = run_program(up({"What is the capital of France?"}), options());
  EXPECT_EQ(second.out, first.out);
  EXPECT_THAT(second.err, AllOf(HasSubstr("Nothing to do: 4/4 ducks"), Not(HasSubstr("configuring"))));
  EXPECT_EQ(calls().find("cmake", 1), std::string::npos) << calls();
  EXPECT_EQ(calls().find("ninja -C build ductl"), calls().rfind("ninja -C build ductl")) << calls();
}

TEST_F(FreshClone, WithoutAPromptItOpensAChatOnATerminal) {
  Terminal terminal(up({}), options());
  ASSERT_TRUE(terminal.wait_for("Serving: 4/4 ducks", 120s)) << terminal.painted();
  ASSERT_TRUE(terminal.wait_for("/help")) << terminal.painted();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.painted();
  terminal.type(std::string("What is the capital of France?") + kEnter);
  ASSERT_TRUE(terminal.wait_for("Paris", 60s)) << terminal.painted();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.painted();
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait(), 0) << terminal.painted();
}

TEST_F(FreshClone, ABuildThatFailsIsSaid) {
  script("bin/cmake", "echo 'no compiler'; exit 1");
  const ProgramResult result = run_program(up({"hello"}), options());
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("no compiler"), HasSubstr("error: cmake failed"), HasSubstr("build/configure.log")));
}

} // namespace
} // namespace ductl::test
