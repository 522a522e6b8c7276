// Loading the drivers of the cards that a duck has, with the image's own modules and lists (docs/image.md).
#pragma once

#include "agent/machine/machine_files.hpp"
#include "inventory/error.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace ductl::agent::init {

class Modules {
public:
  // Loads one file below the image's /modules. Its error is logged, and the others go on.
  using Load = std::function<Expected<void>(const std::string& file)>;
  Modules(MachineFiles files, Load load) : files_(std::move(files)), load_(std::move(load)) {}

  // For every device of the PCI and virtio buses that has none loaded yet. Returns how many modules were new: virtio devices
  // appear only once their bus is there, so it is called until nothing new comes. Fails where the lists cannot be read.
  [[nodiscard]] Expected<int> load_for_devices();
  // By name, where the image has it; with what it needs.
  [[nodiscard]] Expected<int> load_by_name(const std::vector<std::string>& names);
  [[nodiscard]] const std::set<std::string>& loaded() const { return loaded_; } // files, of both

private:
  [[nodiscard]] Expected<int> load(const std::vector<std::string>& names, bool must_exist);

  const MachineFiles files_;
  const Load load_;
  std::set<std::string> loaded_;
};

// Into the kernel (finit_module). One that is there already is fine.
[[nodiscard]] Expected<void> load_module(const MachineFiles& files, const std::string& file);

} // namespace ductl::agent::init
