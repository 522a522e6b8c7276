// Does what the host computes fit into its memory? Asked before anything large is touched.
#pragma once

#include "inventory/inventory.hpp"
#include "weights/checkpoint.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ductl::engine {

// MemAvailable of /proc/meminfo's text, in bytes: free memory and what the kernel can take back, mapped weights included.
[[nodiscard]] std::optional<std::uint64_t> parse_memory_available(std::string_view meminfo);
[[nodiscard]] std::uint64_t memory_available_bytes(); // 0 = cannot tell

enum class FfnPlace { Ducks, Host };
// Weights that the host reads and the KV cache of `context` tokens.
[[nodiscard]] std::uint64_t host_bytes_needed(const weights::Checkpoint& checkpoint, FfnPlace ffn, int context,
                                              inventory::IndexKeys index_keys);
[[nodiscard]] Expected<void> check_host_memory(const weights::Checkpoint& checkpoint, FfnPlace ffn, int context,
                                               inventory::IndexKeys index_keys);

// How many sessions' caches to keep: as many as fit into a quarter of what is free beyond `needed`, 1 to 4.
[[nodiscard]] int sessions_that_fit(std::uint64_t available, std::uint64_t needed, std::uint64_t cache_bytes);

} // namespace ductl::engine
