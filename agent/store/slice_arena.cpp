#include "agent/store/slice_arena.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace ductl::agent {

namespace {

constexpr std::size_t kChunkBytes = 32u << 20; // pages count only once touched
constexpr std::size_t kHugePageBytes = 2u << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

} // namespace

SliceArena::SliceArena(std::size_t slot_bytes) : slot_bytes_(round_up(std::max<std::size_t>(slot_bytes, 1), 64)) {}

SliceArena::~SliceArena() {
  for (const Chunk& chunk : chunks_) ::munmap(chunk.bytes, chunk.size);
}

bool SliceArena::grow() {
  const std::size_t size = round_up(std::max(kChunkBytes, slot_bytes_), kHugePageBytes);
  void* bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) return false;
  (void)::madvise(bytes, size, MADV_HUGEPAGE); // fewer TLB misses; nothing depends on it
  chunks_.push_back({static_cast<std::byte*>(bytes), size});
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
