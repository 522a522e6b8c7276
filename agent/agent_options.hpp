// duck-agent's command line.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ductl::agent {

struct AgentOptions {
  std::string name, flock;
  std::uint32_t address = 0;
  std::uint16_t control_port = 0, data_port = 0; // 0 = kernel-chosen
  std::optional<std::filesystem::path> key_file; // one of these two
  std::optional<int> key_descriptor;
  std::filesystem::path log;
  std::optional<int> ready_descriptor;
  std::uint64_t memory_limit_bytes = ~std::uint64_t{0};
  int threads = 0;                    // that compute; 0 = as plan_threads() finds best
  std::optional<bool> shared_cores;   // with other agents; not said: on a loopback address
  bool help = false, version = false; // then nothing else counts
};

[[nodiscard]] Expected<AgentOptions> parse_agent_options(int argc, char** argv);
[[nodiscard]] const char* agent_usage();

} // namespace ductl::agent
