#include "ductl/reconcile/state_lock.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

namespace ductl::reconcile {
namespace {

struct StateLockTest : ::testing::Test {
  agent::StateFolder folder;
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ductl-lock-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder.root = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder.root); }
};

TEST_F(StateLockTest, IsHadByOneAtATimeAndNamesTheHolder) {
  const auto first = StateLock::take(folder);
  ASSERT_TRUE(first);
  const auto second = StateLock::take(folder);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kState);
  EXPECT_THAT(second.error().message, ::testing::HasSubstr("process " + std::to_string(getpid())));
}

TEST_F(StateLockTest, IsFreeAgainWhenItsHolderEnds) {
  { const auto first = StateLock::take(folder); }
  EXPECT_TRUE(StateLock::take(folder));
}

TEST_F(StateLockTest, LeavesNoFileBehind) {
  {
    const auto lock = StateLock::take(folder);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(StateLock::take(folder)); // and who did not get it leaves it alone
    EXPECT_TRUE(std::filesystem::exists(folder.lock()));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.lock()));
  EXPECT_TRUE(StateLock::take(folder));
}

} // namespace
} // namespace ductl::reconcile
