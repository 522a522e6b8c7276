#include "agent/client/api_keys.hpp"
#include "tests/support/files.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace ductl::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ApiKeys : public ::testing::Test {
protected:
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
  }
  test::TempFolder folder_;
  std::filesystem::path file_ = folder_.path() / "api-keys";
};

TEST_F(ApiKeys, NoFileMeansNone) {
  const auto keys = load_api_keys(file_);
  ASSERT_TRUE(keys);
  EXPECT_TRUE(keys->empty());
  EXPECT_EQ(own_api_key(file_), "");
}

TEST_F(ApiKeys, OneALineWithoutCommentsAndSpaces) {
  write("# of the laptop\nabcdefghijklmnopqrstuvwx  \n\n0123456789012345678901 # of the phone\n");
  const auto keys = load_api_keys(file_);
  ASSERT_TRUE(keys) << keys.error().text();
  EXPECT_THAT(*keys, ElementsAre("abcdefghijklmnopqrstuvwx", "0123456789012345678901"));
  EXPECT_EQ(own_api_key(file_), "abcdefghijklmnopqrstuvwx");
}

TEST_F(ApiKeys, AFileThatOthersMayReadIsRefused) {
  write("abcdefghijklmnopqrstuvwx\n", 0644);
  const auto keys = load_api_keys(file_);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, ErrorCode::kState);
  EXPECT_THAT(keys.error().next, HasSubstr("chmod 600"));
}

TEST_F(ApiKeys, ALinkOrAFolderIsRefusedAndSaysWhatToDo) {
  const std::filesystem::path elsewhere = folder_.path() / "elsewhere";
  std::ofstream(elsewhere) << "abcdefghijklmnopqrstuvwx\n";
  chmod(elsewhere.c_str(), 0600);
  std::filesystem::create_symlink(elsewhere, file_);
  const auto link = load_api_keys(file_);
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().next, HasSubstr("link"));
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  const auto folder = load_api_keys(file_);
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("not a regular file"));
  EXPECT_FALSE(folder.error().next.empty());
}

TEST_F(ApiKeys, AShortKeyIsRefusedByItsLineAndNotRepeated) {
  write("abcdefghijklmnopqrstuvwx\nhunter2\n");
  const auto keys = load_api_keys(file_);
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().place, HasSubstr("api-keys:2"));
  EXPECT_THAT(keys.error().text(), Not(HasSubstr("hunter2")));
}

TEST_F(ApiKeys, AFileWithoutAnyKeyIsAMistake) {
  write("# none yet\n");
  EXPECT_FALSE(load_api_keys(file_));
}

} // namespace
} // namespace ductl::agent
