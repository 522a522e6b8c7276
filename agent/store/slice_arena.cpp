#include "agent/store/slice_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace ductl::agent {

namespace {

constexpr std::size_t kChunkBytes = 32u << 20; // pages count only once touched
constexpr std::size_t kHugePageBytes = 2u << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Whole huge pages only: what mmap() gives begins anywhere, so more is asked for and both ends are given back.
std::byte* map_huge_aligned(std::size_t size) {
  const std::size_t asked = size + kHugePageBytes;
  void* mapped = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* bytes = static_cast<std::byte*>(mapped);
  const std::size_t before = (kHugePageBytes - reinterpret_cast<std::uintptr_t>(bytes) % kHugePageBytes) % kHugePageBytes;
  if (before != 0) ::munmap(bytes, before);
  if (asked != before + size) ::munmap(bytes + before + size, asked - before - size);
  return bytes + before;
}

} // namespace

SliceArena::SliceArena(std::size_t slot_bytes) : slot_bytes_(round_up(std::max<std::size_t>(slot_bytes, 1), 64)) {}

SliceArena::~SliceArena() {
  for (const Chunk& chunk : chunks_) ::munmap(chunk.bytes, chunk.size);
}

bool SliceArena::grow() {
  const std::size_t size = round_up(std::max(kChunkBytes, slot_bytes_), kHugePageBytes);
  std::byte* bytes = map_huge_aligned(size);
  if (bytes == nullptr) return false;
  (void)::madvise(bytes, size, MADV_HUGEPAGE); // fewer TLB misses; nothing depends on it
  chunks_.push_back({bytes, size});
  next_ = 0;
  return true;
}

std::shared_ptr<std::byte> SliceArena::allocate() {
  std::byte* slot = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      if ((chunks_.empty() || next_ + slot_bytes_ > chunks_.back().size) && !grow()) return nullptr;
      slot = chunks_.back().bytes + next_;
      next_ += slot_bytes_;
    }
  }
  return {slot, [arena = shared_from_this()](std::byte* freed) { arena->release(freed); }};
}

void SliceArena::release(std::byte* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

} // namespace ductl::agent
