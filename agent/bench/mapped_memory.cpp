#include "agent/bench/mapped_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

namespace ductl::agent::bench {
namespace {

constexpr std::size_t kHugePage = 2u << 20;

} // namespace

void Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

Expected<MappedMemory> map_memory(std::size_t bytes) {
  const std::size_t mapped = (bytes + kReadableBeyond + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::kHostMemory, fmt::format("no memory for {} bytes to measure with", mapped), "",
                "end other programs, or measure on a machine with more memory");
  ::madvise(memory, mapped, MADV_HUGEPAGE); // a wish
  return MappedMemory(static_cast<std::byte*>(memory), Unmap{mapped});
}

} // namespace ductl::agent::bench
