// ./up in a clone where nothing was built, on its own inventory: inventory/local.toml. The clone holds this tree's ./up, its list
// of packages, its inventory and its model. What would take minutes is played by scripts that note how they were called: cmake
// and ninja put this build's programs in place.
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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kSource = DUCTL_SOURCE_DIR;
constexpr const char* kQuestion = "What is a duck?";

class FreshClone : public ::testing::Test {
protected:
  static void SetUpTestSuite() { enter_own_network(); } // local.toml has fixed ports, which a flock of this machine may hold

  void SetUp() override {
    for (const char* file : {"up", ".packages", "inventory/local.toml"}) {
      std::filesystem::create_directories((clone_ / file).parent_path());
      std::filesystem::copy_file(kSource / file, clone_ / file);
    }
    script("bin/cmake", "mkdir -p build/bin && touch build/build.ninja");
    script("bin/ninja", std::string("case \"$*\" in *-n*) [ ! -e build/bin/ductl ] || echo ninja: no work to do.; exit ;; esac\n"
                                    "ln -sf ") +
                            DUCTL_BIN_DIR + "/ductl " + DUCTL_BIN_DIR + "/duck-agent " + DUCTL_BIN_DIR +
                            "/duck-engine build/bin/");
    std::filesystem::create_directories(clone_ / "weights");
    std::filesystem::create_directory_symlink(kSource / "weights/duckling", clone_ / "weights/duckling");
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

TEST_F(FreshClone, ConfiguresBuildsAndAnswersOnItsOwnInventory) {
  const ProgramResult first = run_program(up({kQuestion}), options());
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("small PC"), EndsWith("\n")));
  EXPECT_THAT(first.err, AllOf(HasSubstr("inventory: inventory/local.toml"), HasSubstr("Serving: 4/4 ducks")));
  EXPECT_EQ(calls(), "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release\n"
                     "ninja -C build -n ductl duck-agent duck-engine\n"
                     "ninja -C build ductl duck-agent duck-engine\n");

  const ProgramResult second = run_program(up({kQuestion}), options());
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
  terminal.type(std::string(kQuestion) + kEnter);
  ASSERT_TRUE(terminal.wait_for("small PC", 60s)) << terminal.painted();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.painted();
  terminal.type(kCtrlD);
  EXPECT_EQ(terminal.wait(), 0) << terminal.painted();
}

TEST_F(FreshClone, InstallsWhatIsMissingAndNothingTheNextTime) {
  // Two packages are missing until apt-get has run; the first build fails, so that nothing needs to be raised.
  script("bin/dpkg-query",
         "case \"$3\" in libisal-dev | libedit-dev) [ -e ../installed ] || exit 1 ;; esac; echo install ok installed");
  script("bin/apt-get", "[ \"$1\" != install ] || touch ../installed");
  script("bin/cmake", "exit 1");
  const ProgramResult first = run_program(up({"hello"}), options());
  EXPECT_THAT(first.err, HasSubstr("installing 2 packages: libisal-dev libedit-dev"));
  EXPECT_THAT(calls(), AllOf(HasSubstr("apt-get update -qq\n"),
                             HasSubstr("apt-get install -y -qq --no-install-recommends libisal-dev libedit-dev\n")));
  const std::size_t before = calls().size();
  EXPECT_THAT(run_program(up({"hello"}), options()).err, Not(HasSubstr("installing")));
  EXPECT_EQ(calls().find("apt-get", before), std::string::npos);
}

TEST_F(FreshClone, PackagesThatCannotBeHadAreNamed) {
  script("bin/dpkg-query", "exit 1");
  script("bin/apt-get", "exit 100");
  const ProgramResult result = run_program(up({"hello"}), options());
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("apt-get could not install: g++ cmake"), HasSubstr("help: ")));
  EXPECT_THAT(calls(), Not(HasSubstr("cmake -S")));
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
