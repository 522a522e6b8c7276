#include "agent/bench/machine.hpp"

#include "agent/bench/machine_avx2.hpp"

#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace ductl::agent::bench {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

} // namespace

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

const std::vector<StreamSetting>& stream_settings() {
  static const std::vector<StreamSetting> kAll = [] {
    std::vector<StreamSetting> all{{}};
    for (const std::size_t kib : {2, 4, 8, 12, 16})
      for (const bool second : {false, true}) all.push_back({kib * 1024, second});
    return all;
  }();
  return kAll;
}

double stream_rate(const std::byte* data, std::size_t bytes, const StreamSetting& setting, std::uint64_t& sink) {
  const double start = thread_seconds();
  sink ^= read_stream(data, bytes, setting.ahead, setting.second_level);
  return static_cast<double>(bytes) / (thread_seconds() - start);
}

double fma_rate() {
  constexpr int kSteps = 2'000'000;
  const double start = thread_seconds();
  const double operations = multiply_adds(kSteps);
  return operations / (thread_seconds() - start);
}

double clock_rate() {
  constexpr int kSteps = 8'000'000, kCyclesEach = 3;
  std::uint64_t value = 3;
  const double start = thread_seconds();
  for (int i = 0; i < kSteps; ++i) {
    value *= 0x9E3779B97F4A7C15u;
    asm volatile("" : "+r"(value)); // a chain that cannot be folded; additions would be, when they are renamed
  }
  return double{kCyclesEach} * kSteps / (thread_seconds() - start);
}

std::uint64_t last_level_cache_bytes() {
  std::uint64_t largest = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", ignored)) {
    const std::string size = first_line(entry.path() / "size"); // "2048K"
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
    if (error != std::errc{}) continue;
    if (*end == 'K') value <<= 10;
    if (*end == 'M') value <<= 20;
    largest = std::max(largest, value);
  }
  return largest;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return {};
}

} // namespace ductl::agent::bench
