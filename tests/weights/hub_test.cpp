#include "weights/hub.hpp"

#include "tests/weights/temporary_checkpoint.hpp"

#include <gmock/gmock.h>
#include <map>

namespace ductl::weights {
namespace {

using testing::HasSubstr;

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

class Hub : public testing::Test {
protected:
  Expected<std::filesystem::path> resolve(const std::string& source) { return resolve_checkpoint_folder(source, environment_); }
  test::TemporaryFolder folder_;
  std::filesystem::path repo_ = folder_.path() / "models--org--tiny-1.5";
  Environment environment_ = environment({{"HF_HUB_CACHE", folder_.path().string()}});
};

TEST(HubCache, the_most_specific_variable_that_is_not_empty_names_the_cache) {
  EXPECT_EQ(hub_cache(environment({{"HF_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}, {"HOME", "/c"}})), "/a");
  EXPECT_EQ(hub_cache(environment({{"HF_HUB_CACHE", ""}, {"HF_HOME", "/b"}, {"HOME", "/c"}})), "/b/hub");
  EXPECT_EQ(hub_cache(environment({{"HOME", "/c"}})), "/c/.cache/huggingface/hub");
}

TEST_F(Hub, a_folder_is_taken_as_it_is) { EXPECT_EQ(resolve(folder_.path().string()).value(), folder_.path()); }

TEST_F(Hub, a_hub_name_leads_to_the_snapshot_that_refs_main_names) {
  std::filesystem::create_directories(repo_ / "snapshots" / "0abc");
  std::filesystem::create_directories(repo_ / "snapshots" / "1def");
  test::write_file(repo_ / "refs" / "main", "1def\n");
  EXPECT_EQ(resolve("org/tiny-1.5").value(), repo_ / "snapshots" / "1def");
}

TEST_F(Hub, without_a_ref_the_only_snapshot_is_taken_and_two_are_refused) {
  std::filesystem::create_directories(repo_ / "snapshots" / "0abc");
  EXPECT_EQ(resolve("org/tiny-1.5").value(), repo_ / "snapshots" / "0abc");
  std::filesystem::create_directories(repo_ / "snapshots" / "1def");
  const auto two = resolve("org/tiny-1.5");
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("2 snapshots"));
}

TEST_F(Hub, a_ref_never_leads_out_of_the_cache) {
  std::filesystem::create_directories(repo_ / "snapshots");
  test::write_file(repo_ / "refs" / "main", "../../../etc");
  const auto out = resolve("org/tiny-1.5");
  ASSERT_FALSE(out);
  EXPECT_THAT(out.error().message, HasSubstr("does not name a commit"));
}

TEST_F(Hub, what_is_not_there_is_an_error_with_the_next_step) {
  for (const char* source : {"", "/no/such/folder", "no-such", "org/other", "../x", "a/b/c"}) {
    const auto result = resolve(source);
    ASSERT_FALSE(result) << source;
    EXPECT_EQ(result.error().code, ErrorCode::kCheckpointFile);
    EXPECT_FALSE(result.error().next.empty()) << source;
  }
  test::write_file(repo_ / "refs" / "main", "1def");
  EXPECT_THAT(resolve("org/tiny-1.5").error().message, HasSubstr("1def"));
  test::write_file(folder_.path() / "file", "x");
  EXPECT_THAT(resolve((folder_.path() / "file").string()).error().message, HasSubstr("not a checkpoint's folder"));
}

} // namespace
} // namespace ductl::weights
