// Keys and values of every layer and position of one sequence, as float, in one mapping of memory that the system
// fills page by page as positions are written: the whole context is set aside, only what is used is taken.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "weights/model_config.hpp"

namespace ductl::engine {

// Plain attention keeps a key and a value row per KV head. Latent attention keeps one row of kv_lora_rank + rope_dim, of which
// the first kv_lora_rank floats are the value too.
class CpuKvCache final : public KvCache {
public:
  [[nodiscard]] static Expected<std::unique_ptr<CpuKvCache>> make(const weights::ModelConfig& config, int capacity);
  ~CpuKvCache() override;
  CpuKvCache(const CpuKvCache&) = delete;
  CpuKvCache& operator=(const CpuKvCache&) = delete;

  [[nodiscard]] int length() const override { return length_; }
  [[nodiscard]] int capacity() const override { return capacity_; }
  void truncate(int length) override;
  void grow(int tokens); // after their rows of every layer are (being) written

  // Rows of one head, one position after the other, row_floats() apart.
  [[nodiscard]] float* keys(int layer, int head) { return row_of(layer, 0, head); }
  [[nodiscard]] float* values(int layer, int head) { return latent_ ? row_of(layer, 0, head) : row_of(layer, 1, head); }
  [[nodiscard]] int row_floats() const { return row_floats_; }
  [[nodiscard]] int heads() const { return heads_; } // of a layer

private:
  CpuKvCache() = default;
  [[nodiscard]] float* row_of(int layer, int kind, int head) {
    return data_ +
           std::size_t((layer * (latent_ ? 1 : 2) + kind) * heads_ + head) * std::size_t(capacity_) * std::size_t(row_floats_);
  }

  bool latent_ = false;
  int heads_ = 0, row_floats_ = 0, capacity_ = 0, length_ = 0;
  float* data_ = nullptr;
  std::size_t bytes_ = 0;
};

} // namespace ductl::engine
