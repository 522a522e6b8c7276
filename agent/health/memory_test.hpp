// A pattern test of memory, before weights go in: stuck and coupled bits, and address lines that are crossed. It finds what is
// broken, not what is weak; memtest86 runs for hours for a reason.
#pragma once

#include "inventory/clock.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ductl::agent::health {

struct MemoryFindings {
  std::uint64_t tested_bytes = 0, bad_words = 0;
  std::string first_bad; // "offset 0x1f0 of block 3: wrote 0000..., read 0000...1"; "" = none
};

// Each word gets a value of its own number, then its complement; all are written before any is read back. `after_write` stands
// between the two, for tests.
[[nodiscard]] MemoryFindings test_words(
    std::span<std::uint64_t> words, std::uint64_t seed, const std::function<void()>& after_write = [] {});

struct MemoryTestBounds {
  std::uint64_t bytes_max = ~std::uint64_t{0};
  Duration time_max = std::chrono::seconds(8);
  std::uint64_t first_block = 0; // values of other tests at the same time must not be the same
};
// How much of `available` bytes may be taken for a test: the rest keeps the machine going.
[[nodiscard]] std::uint64_t testable_bytes(std::uint64_t available);

// Takes memory of the system block by block, writes all of it, reads all back, the same once more with every bit flipped, and
// gives it back: as much as the bounds of bytes and time allow and the system has. `pause` is called after each block each time
// (the watchdog is fed there). Blocks.
[[nodiscard]] MemoryFindings test_free_memory(const MemoryTestBounds& bounds, const std::function<void()>& pause);

} // namespace ductl::agent::health
