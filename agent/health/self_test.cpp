#include "agent/health/self_test.hpp"

#include "agent/bench/machine.hpp"
#include "agent/health/memory_test.hpp"
#include "inventory/cpu_features.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace ductl::agent::health {
namespace {

constexpr std::size_t kStreamBytes = 64u << 20, kStreamBytesMin = 4u << 20;
constexpr int kStreamReads = 3;

std::uint64_t available_bytes(const MachineFiles& files) {
  std::istringstream in(files.text("proc/meminfo").value_or(""));
  std::string title, rest;
  std::uint64_t kilobytes = 0;
  while (in >> title >> kilobytes && std::getline(in, rest))
    if (title == "MemAvailable:") return kilobytes * 1024;
  return 0;
}

// The best of a few reads of more than the cache holds: what disturbs only ever slows.
std::optional<double> stream_bytes_s(std::uint64_t available) {
  const std::size_t bytes = std::min<std::size_t>(kStreamBytes, available / 4) / 4096 * 4096;
  if (!cpu_has_avx2() || bytes < std::max<std::size_t>(kStreamBytesMin, 2 * bench::last_level_cache_bytes())) return std::nullopt;
  const std::vector<std::byte> memory(bytes, std::byte{1});
  std::uint64_t sink = 0;
  double best = 0;
  for (int i = 0; i < kStreamReads; ++i)
    best = std::max(best, bench::stream_rate(memory.data(), memory.size(), {8 * 1024, false}, sink));
  return best;
}

} // namespace

Measured run_self_test(const MachineFiles& files, const std::function<void()>& pause) {
  Measured out;
  const std::uint64_t available = available_bytes(files);
  out.clock_hz = bench::clock_rate();
  pause();
  out.stream_bytes_s = stream_bytes_s(available);
  pause();
  const MemoryFindings found = test_free_memory({.bytes_max = testable_bytes(available)}, pause);
  out.memory_tested_bytes = found.tested_bytes;
  out.memory_bad_words = found.bad_words;
  out.memory_bad_place = found.first_bad;
  return out;
}

} // namespace ductl::agent::health
