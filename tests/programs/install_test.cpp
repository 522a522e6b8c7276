// `cmake --install`: the installed programs stand on their own.
#include "tests/end_to_end/tiny_flock.hpp"

#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using ::testing::StartsWith;

TEST(Install, TheInstalledProgramsFindEachOther) {
  TinyFlock flock({.ducks = 1});
  const std::filesystem::path prefix = flock.folder() / "prefix";
  const ProgramResult installed = run_program({DUCTL_CMAKE, "--install", DUCTL_BUILD_DIR, "--prefix", prefix.string()});
  ASSERT_EQ(installed.status, 0) << installed.err;
  const std::string ductl = prefix / "bin/ductl";
  const ProgramResult version = run_program({ductl, "version"});
  EXPECT_EQ(version.status, 0) << version.err;
  EXPECT_THAT(version.out, StartsWith("ductl "));
  const std::filesystem::path share = prefix / "share/ductl";
  EXPECT_EQ(run_program({ductl, "-i", share / "inventory/local.toml", "validate"}).status, 0);
  EXPECT_EQ(run_program({ductl, "model", "show", share / "weights/duckling"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(prefix / "share/doc/ductl/inventory.md"));

  std::vector<std::string> up = flock.argv({"up"});
  up.front() = ductl;
  const ProgramResult raised = run_program(up, flock.options());
  ASSERT_EQ(raised.status, 0) << raised.err;
  const std::vector<std::string> processes = flock.processes();
  ASSERT_EQ(processes.size(), 2u);
  for (const std::string& process : processes) EXPECT_THAT(process, StartsWith((prefix / "bin/duck-").string()));
}

} // namespace
} // namespace ductl::test
