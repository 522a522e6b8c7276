#include "agent/bench/slice_pool.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <sys/mman.h>
#include <vector>

namespace ductl::agent::bench {
namespace {

constexpr std::size_t kHugePage = 2u << 20, kReadableBeyond = 64u << 10; // prefetches run past the end

void fill_slice(const weights::SliceLayout& layout, std::byte* slice) {
  std::mt19937 random(7);
  std::memset(slice, 0, layout.panel);
  std::uniform_real_distribution<float> scale(0.0005f, 0.002f);
  for (int i = 0; i < 3 * layout.scale_blocks; ++i) {
    const float value = scale(random);
    std::memcpy(slice + sizeof(float) * static_cast<std::size_t>(i), &value, sizeof value);
  }
  std::normal_distribution<float> gauss(0, 60);
  weights::TileCodes nine;
  weights::TileE4m3 eight;
  for (std::size_t at = layout.panel; at < layout.bytes; at += weights::tile_bytes(layout.format)) {
    for (int r = 0; r < weights::kTileRows; ++r)
      for (int c = 0; c < weights::kTileColumns; ++c) {
        nine.code[r][c] = weights::fp9_round(gauss(random));
        eight.code[r][c] = static_cast<std::uint8_t>(random() & 0xF7); // an exponent below 15: no NaN
      }
    layout.format == weights::TileFormat::NineBit ? weights::store_tile(nine, slice + at)
                                                  : weights::store_tile(eight, slice + at);
  }
}

} // namespace

void Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

Expected<SlicePool> SlicePool::make(int hidden, weights::TileFormat format, std::size_t bytes) {
  SlicePool pool;
  pool.layout_ = weights::slice_layout(hidden, format);
  pool.count_ = std::max<std::size_t>(1, bytes / pool.layout_.bytes);
  const std::size_t mapped = (pool.bytes() + kReadableBeyond + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::kHostMemory, fmt::format("no memory for {} bytes of slices to measure with", mapped), "",
                "end other programs, or measure on a machine with more memory");
  ::madvise(memory, mapped, MADV_HUGEPAGE); // a wish
  pool.memory_ = {static_cast<std::byte*>(memory), Unmap{mapped}};
  std::vector<std::byte> one(pool.layout_.bytes);
  fill_slice(pool.layout_, one.data());
  for (std::size_t i = 0; i < pool.count_; ++i) std::memcpy(pool.memory_.get() + i * one.size(), one.data(), one.size());
  return pool;
}

} // namespace ductl::agent::bench
