// Random valid slices in memory, more of them than any cache holds, for measuring kernels on cold weights.
#pragma once

#include "agent/bench/mapped_memory.hpp"
#include "weights/slice.hpp"

#include <cstddef>
#include <cstdint>
#include <random>

namespace ductl::agent::bench {

// Random finite weights, gaussian ones in fp9 and every code in e4m3, with random scales: a valid slice without a checkpoint.
void fill_random_slice(const weights::SliceLayout& layout, std::byte* slice, std::mt19937& random);

class SlicePool {
public:
  // About `bytes` of slices. Their pages are touched, 2 MiB ones where the system gives them. kHostMemory when there are none.
  [[nodiscard]] static Expected<SlicePool> make(int hidden, weights::TileFormat format, std::size_t bytes);

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t slice_bytes() const { return layout_.bytes; }
  [[nodiscard]] const weights::SliceLayout& layout() const { return layout_; }
  // Round about: slices are taken one after the other, and by the time one comes again it is cold.
  [[nodiscard]] const std::byte* slice(std::size_t number) const { return memory_.get() + (number % count_) * layout_.bytes; }
  [[nodiscard]] const std::byte* begin() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return count_ * layout_.bytes; }

private:
  weights::SliceLayout layout_;
  std::size_t count_ = 0;
  MappedMemory memory_;
};

} // namespace ductl::agent::bench
