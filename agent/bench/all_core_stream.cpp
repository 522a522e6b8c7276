#include "agent/bench/all_core_stream.hpp"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <thread>

namespace ductl::agent::bench {
namespace {

constexpr std::size_t kPieceBytes = 16u << 20, kSetMin = 256u << 20;
constexpr std::size_t kSettingsKept = 3;

} // namespace

std::size_t AllCoreStream::bytes_needed() { return std::max<std::size_t>(kSetMin, 3 * last_level_cache_bytes()); }

Expected<AllCoreStream> AllCoreStream::make(int threads) {
  AllCoreStream stream;
  stream.threads_ = threads;
  const auto parts = static_cast<std::size_t>(threads);
  stream.bytes_ = std::max(bytes_needed() / parts, 2 * kPieceBytes) / kPieceBytes * kPieceBytes;
  auto memory = map_memory(parts * stream.bytes_);
  if (!memory) return tl::unexpected(memory.error());
  stream.memory_ = std::move(*memory);
  std::memset(stream.memory_.get(), 1, parts * stream.bytes_ + kReadableBeyond);
  std::vector<std::pair<double, StreamSetting>> looked;
  for (const StreamSetting& setting : stream_settings()) looked.emplace_back(stream.rate(setting), setting);
  std::sort(looked.begin(), looked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < kSettingsKept; ++i) stream.settings_.push_back(looked[i].second);
  return stream;
}

double AllCoreStream::rate() {
  double best = 0;
  for (const StreamSetting& setting : settings_) best = std::max(best, rate(setting));
  return best;
}

double AllCoreStream::rate(const StreamSetting& setting) {
  const auto parts = static_cast<std::size_t>(threads_);
  if (at_ + kPieceBytes > bytes_) at_ = 0;
  std::vector<double> rates(parts);
  std::vector<std::uint64_t> sinks(parts);
  std::barrier start(static_cast<std::ptrdiff_t>(parts));
  const auto read = [&](std::size_t part) {
    start.arrive_and_wait();
    rates[part] = stream_rate(memory_.get() + part * bytes_ + at_, kPieceBytes, setting, sinks[part]);
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t part = 1; part < parts; ++part) others.emplace_back(read, part);
    read(0);
  }
  at_ += kPieceBytes;
  double sum = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    sum += rates[part];
    sink_ ^= sinks[part];
  }
  return sum;
}

} // namespace ductl::agent::bench
