#include "tests/support/files.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <stdlib.h>

namespace ductl::test {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ductl-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::array<char, 4096> some{};
  do { // read() tells by its state where an iterator throws: a process may end while its file in /proc is read
    in.read(some.data(), some.size());
    text.append(some.data(), static_cast<std::size_t>(in.gcount()));
  } while (in);
  return text;
}

void replace_in(const std::filesystem::path& file, const std::string& from, const std::string& to) {
  std::string text = text_of(file);
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error(file.string() + " has no \"" + from + '"');
  text.replace(at, from.size(), to);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

} // namespace ductl::test
