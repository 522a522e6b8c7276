#include "agent/health/self_test.hpp"

#include "agent/bench/machine.hpp"
#include "agent/health/memory_test.hpp"
#include "inventory/cpu_features.hpp"

#include <algorithm>
#include <future>
#include <sstream>
#include <thread>
#include <vector>

namespace ductl::agent::health {
namespace {

constexpr std::size_t kStreamBytes = 64u << 20, kStreamBytesMin = 4u << 20;
constexpr int kStreamReads = 3;
constexpr std::uint64_t kBlocksApart = 1u << 20; // no two threads write the same values

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

// Every core its share: one alone does not see all of a large memory within the time.
MemoryFindings test_memory(std::uint64_t bytes, const std::function<void()>& pause) {
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<MemoryFindings>> shares;
  for (std::uint64_t i = 0; i < threads; ++i)
    shares.push_back(std::async(std::launch::async, [&, i] {
      return test_free_memory({.bytes_max = bytes / threads, .first_block = i * kBlocksApart}, pause);
    }));
  MemoryFindings all;
  for (auto& share : shares) {
    const MemoryFindings found = share.get();
    if (all.bad_words == 0) all.first_bad = found.first_bad;
    all.bad_words += found.bad_words;
    all.tested_bytes += found.tested_bytes;
  }
  return all;
}

} // namespace

Measured run_self_test(const MachineFiles& files, const std::function<void()>& pause) {
  Measured out;
  const std::uint64_t available = available_bytes(files);
  out.clock_hz = bench::clock_rate();
  pause();
  out.stream_bytes_s = stream_bytes_s(available);
  pause();
  const MemoryFindings found = test_memory(testable_bytes(available), pause);
  out.memory_tested_bytes = found.tested_bytes;
  out.memory_bad_words = found.bad_words;
  out.memory_bad_place = found.first_bad;
  return out;
}

} // namespace ductl::agent::health
