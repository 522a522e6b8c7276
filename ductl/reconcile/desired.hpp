// What a flock shall be, as values that observations can be compared with.
#pragma once

#include "agent/client/serving.hpp"
#include "inventory/inventory.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ductl::reconcile {

enum class Goal {
  Serving, // every duck filled, the engine answers
  Filled,  // every duck filled, no engine (a temporary flock)
  Down,    // nothing of ours runs
};

struct DesiredDuck {
  std::string name;
  std::uint64_t slices = 0, bytes = 0;    // that the placement gives it
  int cores = 0;                          // that the inventory expects; 0 = not said
  std::uint64_t memory_bytes = 0;         // likewise
  std::optional<inventory::Mac> mac = {}; // of a machine
};

// What ducks are: processes of this machine, which it starts and stops, or machines, which it wakes, adopts and tells to switch
// off.
enum class DuckKind { Process, Machine };

struct Desired {
  Goal goal = Goal::Serving;
  std::string flock;
  DuckKind kind = DuckKind::Process;
  std::string version = {}; // of every agent; "" = any. Of machines the image decides
  std::string image = {};   // id of the image that machines shall run; "" = any
  std::string model_id = {};
  std::string format = {}; // of its slices: "fp9", "e4m3"; "" = not known without opening the model
  int threads = 0;         // that compute on every duck; 0 = any
  std::vector<DesiredDuck> ducks = {};
  agent::Serving serving = {}; // ports of kernel-chosen agents are filled in when they are known
};

// Where the inventory wants a duck's data plane; 0 = wherever the kernel puts it.
[[nodiscard]] inline std::uint16_t wanted_data_port(const Desired& desired, std::size_t number) {
  return number < desired.serving.ducks.size() ? desired.serving.ducks[number].data_port : std::uint16_t{0};
}

} // namespace ductl::reconcile
