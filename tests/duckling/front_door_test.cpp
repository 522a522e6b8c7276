// ./up as a new user runs it, on an inventory of the test's own and in this build's folder.
#include "tests/support/local_flock.hpp"

#include <filesystem>
#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kModel = DUCTL_SOURCE_DIR "/weights/duckling";
constexpr const char* kQuestion = "What is a duck?";

class FrontDoor : public ::testing::Test {
protected:
  static ProgramResult up(const LocalFlock& flock, const std::vector<std::string>& prompt) {
    std::vector<std::string> argv{std::string(DUCTL_SOURCE_DIR) + "/up"};
    argv.insert(argv.end(), prompt.begin(), prompt.end());
    ProgramOptions options = flock.options(180s);
    options.environment["DUCTL_BUILD"] = DUCTL_BUILD;
    options.environment["DUCTL_INVENTORY"] = (flock.folder() / "flock.toml").string();
    return run_program(argv, options);
  }
};

TEST_F(FrontDoor, AnswersOnStandardOutputAloneAndTheSecondTimeDoesNothingElse) {
  LocalFlock flock({.model = kModel, .ducks = 4});
  const ProgramResult first = up(flock, {kQuestion});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("small PC"), HasSubstr("slices"), EndsWith("\n")));

  const auto start = std::chrono::steady_clock::now();
  const ProgramResult second = up(flock, {kQuestion});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
  EXPECT_EQ(second.out, first.out);
  EXPECT_THAT(second.err, HasSubstr("Nothing to do: 4/4 ducks match inventory."));
}

TEST_F(FrontDoor, AnAnswerThatFindsNoEndIsCutInTime) {
  LocalFlock flock({.model = kModel, .ducks = 4, .limits_toml = "request_tokens_max = 256"}); // as inventory/local.toml has it
  ASSERT_EQ(up(flock, {kQuestion}).status, 0);
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = up(flock, {"And it came to pass that the king said unto the captain of the host,"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
}

TEST_F(FrontDoor, APromptMayLookLikeAnOption) {
  LocalFlock flock({.model = kModel, .ducks = 2});
  const ProgramResult result = up(flock, {"--help me with my ducks"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(result.out.empty());
}

TEST_F(FrontDoor, ASingleWordWithADashIsASlipUnlessItStandsAfterTwo) {
  LocalFlock flock({.model = kModel, .ducks = 2});
  const ProgramResult slip = up(flock, {"--foo"});
  EXPECT_EQ(slip.status, 1);
  EXPECT_THAT(slip.err, HasSubstr("./up -- \"--foo\""));
  EXPECT_THAT(flock.processes(), IsEmpty());
  EXPECT_EQ(up(flock, {"--", "-v"}).status, 0);
}

TEST_F(FrontDoor, AMistypedInventoryIsNamedAndNothingElseIsRaised) {
  LocalFlock flock({.model = kModel, .ducks = 1});
  ProgramOptions options = flock.options(60s);
  options.environment["DUCTL_BUILD"] = DUCTL_BUILD;
  options.environment["DUCTL_INVENTORY"] = "/nonexistent/folder/flock.toml";
  const ProgramResult result = run_program({std::string(DUCTL_SOURCE_DIR) + "/up", "hello"}, options);
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("/nonexistent/folder/flock.toml"));
}

TEST_F(FrontDoor, WithoutAnAnswerItFails) {
  LocalFlock flock({.model = "/nonexistent", .ducks = 2});
  const ProgramResult result = up(flock, {"hello"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("/nonexistent"));
}

} // namespace
} // namespace ductl::test
