// The whole tree against the rules.
#include "rules.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <iterator>

namespace ductl::tidy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"inventory", "weights", "agent", "netboot", "engine", "ductl", "tests"};

struct Source {
  std::string path; // from the root
  std::string text;
};

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> found;
    const fs::path root(DUCTL_SOURCE_DIR);
    for (const char* folder : kFolders) {
      if (!fs::exists(root / folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const std::string extension = entry.path().extension().string();
        if (!entry.is_regular_file() || (extension != ".cpp" && extension != ".hpp")) continue;
        std::ifstream stream(entry.path(), std::ios::binary);
        found.push_back({fs::relative(entry.path(), root).string(),
                         {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()}});
      }
    }
    return found;
  }();
  return all;
}

bool is_product(const Source& source) { return !source.path.starts_with("tests/"); }

Complaints complaints(const std::function<Complaints(std::string_view, std::string_view)>& rule, bool tests_too) {
  Complaints all;
  for (const Source& source : sources()) {
    if (!tests_too && !is_product(source)) continue;
    const Complaints found = rule(source.path, source.text);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

TEST(Tree, IsFound) {
  EXPECT_GT(sources().size(), 50u);
  for (const char* folder : kFolders)
    EXPECT_TRUE(std::any_of(sources().begin(), sources().end(), [&](const Source& s) { return s.path.starts_with(folder); }))
        << folder;
}

TEST(Tree, IncludesOnlyGoDown) { EXPECT_THAT(complaints(floor_complaints, false), ::testing::IsEmpty()); }
TEST(Tree, LibrariesStayInTheirFolders) { EXPECT_THAT(complaints(library_complaints, false), ::testing::IsEmpty()); }
TEST(Tree, KernelFilesIncludeAlmostNothing) { EXPECT_THAT(complaints(avx2_complaints, false), ::testing::IsEmpty()); }
TEST(Tree, FilesHaveTheirForm) { EXPECT_THAT(complaints(form_complaints, true), ::testing::IsEmpty()); }
TEST(Tree, OnlyLoopsReadClocks) { EXPECT_THAT(complaints(clock_complaints, false), ::testing::IsEmpty()); }

} // namespace
} // namespace ductl::tidy
