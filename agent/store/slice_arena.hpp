// Memory for slices: slots of one size, 64-byte aligned, cut from chunks that grow on demand and are huge pages where the
// kernel gives them. A slot is returned when its last owner lets go, which may be an index that is active no more.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ductl::agent {

class SliceArena : public std::enable_shared_from_this<SliceArena> {
public:
  // `slot_bytes` is rounded up to a multiple of 64.
  explicit SliceArena(std::size_t slot_bytes);
  ~SliceArena();
  SliceArena(const SliceArena&) = delete;
  SliceArena& operator=(const SliceArena&) = delete;

  // Null when the system gives no more memory. Any thread. The arena lives as long as any slot.
  [[nodiscard]] std::shared_ptr<std::byte> allocate();

private:
  struct Chunk {
    std::byte* bytes = nullptr;
    std::size_t size = 0;
  };
  bool grow(); // with the lock held
  void release(std::byte* slot);

  const std::size_t slot_bytes_;
  std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::vector<std::byte*> free_;
  std::size_t next_ = 0; // first byte of the last chunk that was never given out
};

} // namespace ductl::agent
