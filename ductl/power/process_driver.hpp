// The power driver of a local flock: a duck is a duck-agent process of this machine.
//
// on() starts it and waits until it says that it is ready; its run file is written before that wait, so that a ductl which
// is killed in between leaves a process that the next one knows. off() ends it and removes the run file.
#pragma once

#include "agent/client/state_folder.hpp"
#include "ductl/power/power_driver.hpp"

#include <memory>

namespace ductl::power {

struct ProcessDriverOptions {
  std::filesystem::path agent_program;
  agent::StateFolder state; // made already
  std::string flock;
  std::string flock_key;
  inventory::Ports ports; // 0 = kernel-chosen
  int threads = 0;        // that compute; 0 = as the agent finds best
  std::chrono::milliseconds ready_limit{180'000};
};

[[nodiscard]] std::unique_ptr<PowerDriver> make_process_driver(ProcessDriverOptions options);

} // namespace ductl::power
