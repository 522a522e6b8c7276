#include "agent/host_facts.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ductl::agent {

MemoryFacts memory_facts() {
  MemoryFacts facts;
  std::ifstream file("/proc/meminfo");
  std::string title, unit;
  std::uint64_t kilobytes = 0;
  while (file >> title >> kilobytes) {
    std::getline(file, unit);
    if (title == "MemTotal:") facts.total_bytes = kilobytes * 1024;
    if (title == "MemAvailable:") facts.available_bytes = kilobytes * 1024;
  }
  return facts;
}

int core_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

} // namespace ductl::agent
