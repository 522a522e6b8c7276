// What this machine could do at best: its streaming read, its multiply-add peak, its clock. The yardsticks of `duck-agent bench`.
//
// Each call measures once, on the calling thread, by the time that it ran; callers interleave it with what they compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ductl::agent::bench {

// That the calling thread has run: what other threads took from its core does not count.
[[nodiscard]] double thread_seconds();

struct StreamSetting {
  std::size_t ahead = 0;     // bytes; 0 = plain reads
  bool second_level = false; // prefetcht1, else prefetcht0
};
// Plain, and prefetched 2, 4, 8, 12 and 16 KiB ahead with either hint.
[[nodiscard]] const std::vector<StreamSetting>& stream_settings();

// Reads `bytes` (a multiple of 128) with 32-byte loads; returns bytes a second. `sink` keeps the sum alive.
[[nodiscard]] double stream_rate(const std::byte* data, std::size_t bytes, const StreamSetting& setting, std::uint64_t& sink);
// Floating-point operations a second of independent 8-wide multiply-adds (two a cycle on every core with AVX2 and FMA).
[[nodiscard]] double fma_rate();
// Cycles a second, by a chain of dependent 64-bit multiplications of three cycles each.
[[nodiscard]] double clock_rate();

// Of the largest cache of this CPU, from sysfs; 0 = not known.
[[nodiscard]] std::uint64_t last_level_cache_bytes();
[[nodiscard]] std::string cpu_name(); // "model name" of /proc/cpuinfo

} // namespace ductl::agent::bench
