#include "engine/session/host_memory.hpp"

#include "weights/budget.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace ductl::engine {
namespace {
constexpr int kSessionsMax = 4;
}

std::optional<std::uint64_t> parse_memory_available(std::string_view meminfo) {
  constexpr std::string_view kName = "MemAvailable:";
  const auto at = meminfo.find(kName);
  if (at == meminfo.npos) return std::nullopt;
  const auto digits = meminfo.find_first_not_of(' ', at + kName.size());
  if (digits == meminfo.npos) return std::nullopt;
  std::uint64_t kib = 0;
  const auto [end, error] = std::from_chars(meminfo.data() + digits, meminfo.data() + meminfo.size(), kib);
  if (error != std::errc() || kib > ~0ull / 1024) return std::nullopt;
  return kib * 1024;
}

std::uint64_t memory_available_bytes() {
  std::ifstream in("/proc/meminfo");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_memory_available(text).value_or(0);
}

std::uint64_t host_bytes_needed(const weights::Checkpoint& checkpoint, FfnPlace ffn, int context,
                                inventory::IndexKeys index_keys) {
  const weights::ModelSizes sizes = weights::model_sizes(checkpoint.config(), weights::HostFfn::None, index_keys);
  const std::uint64_t weights = ffn == FfnPlace::Host ? checkpoint.bytes() : sizes.host_weight_bytes;
  return weights + sizes.kv_bytes_per_token * static_cast<std::uint64_t>(context);
}

Expected<void> check_host_memory(const weights::Checkpoint& checkpoint, FfnPlace ffn, int context,
                                 inventory::IndexKeys index_keys) {
  weights::Budget budget;
  budget.host_needed = host_bytes_needed(checkpoint, ffn, context, index_keys);
  budget.host_available = memory_available_bytes();
  budget.context = context;
  return weights::check_budget(budget);
}

int sessions_that_fit(std::uint64_t available, std::uint64_t needed, std::uint64_t cache_bytes) {
  if (available <= needed || cache_bytes == 0) return 1;
  const std::uint64_t fit = 1 + (available - needed) / 4 / cache_bytes;
  return static_cast<int>(std::min<std::uint64_t>(fit, kSessionsMax));
}

} // namespace ductl::engine
