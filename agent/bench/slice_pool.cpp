#include "agent/bench/slice_pool.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace ductl::agent::bench {
void fill_random_slice(const weights::SliceLayout& layout, std::byte* slice, std::mt19937& random) {
  std::memset(slice, 0, layout.panel);
  std::uniform_real_distribution<float> scale(0.0005f, 0.002f);
  for (int i = 0; i < 3 * layout.scale_blocks; ++i) {
    const float value = scale(random);
    std::memcpy(slice + sizeof(float) * static_cast<std::size_t>(i), &value, sizeof value);
  }
  std::normal_distribution<float> gauss(0, 60);
  std::vector<weights::Fp9> pool(4096);
  for (weights::Fp9& code : pool) code = weights::fp9_round(gauss(random));
  weights::TileCodes nine;
  weights::TileE4m3 eight;
  for (std::size_t at = layout.panel; at < layout.bytes; at += weights::tile_bytes(layout.format)) {
    for (auto& row : nine.code)
      for (weights::Fp9& code : row) code = pool[random() % pool.size()];
    for (auto& row : eight.code)
      for (std::uint8_t& code : row) {
        code = static_cast<std::uint8_t>(random());
        if (weights::e4m3_is_nan(code)) code ^= 1;
      }
    layout.format == weights::TileFormat::NineBit ? weights::store_tile(nine, slice + at)
                                                  : weights::store_tile(eight, slice + at);
  }
}

Expected<SlicePool> SlicePool::make(int hidden, weights::TileFormat format, std::size_t bytes) {
  SlicePool pool;
  pool.layout_ = weights::slice_layout(hidden, format);
  pool.count_ = std::max<std::size_t>(1, bytes / pool.layout_.bytes);
  auto memory = map_memory(pool.bytes());
  if (!memory) return tl::unexpected(memory.error());
  pool.memory_ = std::move(*memory);
  std::vector<std::byte> one(pool.layout_.bytes);
  std::mt19937 random(7);
  fill_random_slice(pool.layout_, one.data(), random);
  for (std::size_t i = 0; i < pool.count_; ++i) std::memcpy(pool.memory_.get() + i * one.size(), one.data(), one.size());
  return pool;
}

} // namespace ductl::agent::bench
