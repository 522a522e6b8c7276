// Memory to measure with: whole pages, 2 MiB ones where the system gives them.
#pragma once

#include "inventory/error.hpp"

#include <cstddef>
#include <memory>

namespace ductl::agent::bench {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using MappedMemory = std::unique_ptr<std::byte, Unmap>;

inline constexpr std::size_t kReadableBeyond = 64u << 10; // prefetches run past the end

// `bytes` of zeros that kReadableBeyond more lie behind. kHostMemory when there are none. Not touched: pages that nobody has
// written are all the same one.
[[nodiscard]] Expected<MappedMemory> map_memory(std::size_t bytes);

} // namespace ductl::agent::bench
