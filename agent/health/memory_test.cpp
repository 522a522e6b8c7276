#include "agent/health/memory_test.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace ductl::agent::health {
namespace {

constexpr std::uint64_t kBlockBytes = 32u << 20, kMib = 1u << 20;
constexpr std::uint64_t kFlips[] = {0, ~std::uint64_t{0}}; // each bit is written both ways

// splitmix64: any bit of the number changes half of the value's, so crossed address lines show.
std::uint64_t pattern(std::uint64_t number) {
  number += 0x9E3779B97F4A7C15u;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
  return number ^ (number >> 31);
}

void write(std::span<std::uint64_t> words, std::uint64_t seed, std::uint64_t flip) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = pattern(seed + i) ^ flip;
  asm volatile("" ::: "memory"); // what is read back is memory, not what the compiler remembers
}

void verify(std::span<const std::uint64_t> words, std::uint64_t seed, std::uint64_t flip, MemoryFindings& out) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t wrote = pattern(seed + i) ^ flip;
    if (words[i] == wrote) continue;
    if (out.bad_words++ == 0)
      out.first_bad =
          fmt::format("word {} of block {:x}: wrote {:016x}, read {:016x}", i, seed / (kBlockBytes / 8), wrote, words[i]);
  }
}

class Blocks {
public:
  Blocks() = default;
  ~Blocks() {
    for (void* block : blocks_) ::munmap(block, kBlockBytes);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  // Empty where the system has no more.
  std::span<std::uint64_t> take() {
    void* memory = ::mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
    (void)::madvise(memory, kBlockBytes, MADV_HUGEPAGE);
    blocks_.push_back(memory);
    return {static_cast<std::uint64_t*>(memory), kBlockBytes / sizeof(std::uint64_t)};
  }

private:
  std::vector<void*> blocks_; // kept, so that the next block is other memory
};

} // namespace

MemoryFindings test_words(std::span<std::uint64_t> words, std::uint64_t seed, const std::function<void()>& after_write) {
  MemoryFindings out;
  out.tested_bytes = words.size_bytes();
  for (const std::uint64_t flip : kFlips) {
    write(words, seed, flip);
    after_write();
    verify(words, seed, flip, out);
  }
  return out;
}

std::uint64_t testable_bytes(std::uint64_t available) {
  const std::uint64_t kept = std::clamp(available / 8, 48 * kMib, 512 * kMib);
  return available > kept ? available - kept : 0;
}

MemoryFindings test_free_memory(const MemoryTestBounds& bounds, const std::function<void()>& pause) {
  MemoryFindings out;
  Blocks blocks;
  std::vector<std::span<std::uint64_t>> all;
  const auto seed_of = [&](std::size_t block) { return (bounds.first_block + block) * (kBlockBytes / sizeof(std::uint64_t)); };
  const Instant start = Clock::now(), end = start + bounds.time_max;
  // All is written before any is read back, so that blocks which are the same memory show. Two ways, each written and read: a
  // quarter of the time for the first writing leaves as much for each of the others.
  while ((all.size() + 1) * kBlockBytes <= bounds.bytes_max && Clock::now() < start + bounds.time_max / 4) {
    const std::span<std::uint64_t> words = blocks.take();
    if (words.empty()) break;
    write(words, seed_of(all.size()), kFlips[0]);
    all.push_back(words);
    pause();
  }
  out.tested_bytes = all.size() * kBlockBytes;
  for (const std::uint64_t flip : kFlips) {
    for (std::size_t i = 0; flip != kFlips[0] && i < all.size(); ++i) {
      if (Clock::now() >= end) return out; // only half was tested by the other values
      write(all[i], seed_of(i), flip);
      pause();
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      verify(all[i], seed_of(i), flip, out);
      pause();
    }
  }
  return out;
}

} // namespace ductl::agent::health
