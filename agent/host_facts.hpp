// What an agent tells of the machine that it runs on.
#pragma once

#include <cstdint>

namespace ductl::agent {

struct MemoryFacts {
  std::uint64_t total_bytes = 0, available_bytes = 0; // 0 = cannot be told
};
[[nodiscard]] MemoryFacts memory_facts(); // of /proc/meminfo
[[nodiscard]] int core_count();           // that this process may use

} // namespace ductl::agent
