#include "tests/health/machine_tree.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace ductl::agent::test {

MachineTree& MachineTree::write(const std::string& path, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return *this;
}

std::string MachineTree::read(const std::string& path) const {
  std::ifstream in(std::filesystem::path(folder_.path()) / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void MachineTree::remove(const std::string& path) { std::filesystem::remove_all(std::filesystem::path(folder_.path()) / path); }

} // namespace ductl::agent::test
