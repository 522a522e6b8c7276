// Folders and files of tests.
#pragma once

#include <filesystem>
#include <string>

namespace ductl::test {

// A folder of its own under the system's temporary folder; removed with all it holds when this goes.
class TempFolder {
public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string text_of(const std::filesystem::path& file); // "" when it cannot be read

// The first `from` of a file becomes `to`. Throws std::runtime_error where there is none.
void replace_in(const std::filesystem::path& file, const std::string& from, const std::string& to);

} // namespace ductl::test
