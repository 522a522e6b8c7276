// A machine as a tree of files, for what reads /proc and /sys below a root.
#pragma once

#include "agent/machine/machine_files.hpp"
#include "tests/support/files.hpp"

#include <string>

namespace ductl::agent::test {

class MachineTree {
public:
  // Makes the folders on the way.
  MachineTree& write(const std::string& path, const std::string& text);
  [[nodiscard]] MachineFiles files() const { return MachineFiles(folder_.path()); }
  [[nodiscard]] std::string read(const std::string& path) const;
  void remove(const std::string& path);

private:
  ductl::test::TempFolder folder_;
};

} // namespace ductl::agent::test
