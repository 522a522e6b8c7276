// Keys and values of every layer and position of one sequence, in one mapping of memory that the system fills page by page as
// positions are written: the whole context is set aside, only what is used is taken.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/attention/index_keys.hpp"
#include "inventory/inventory.hpp"
#include "weights/model_config.hpp"

namespace ductl::engine {

// Plain attention keeps a key and a value row per KV head, latent attention one row of kv_lora_rank + rope_dim, of which the
// first kv_lora_rank floats are the value too. With an indexer every layer keeps one more key a position. MTP layers have rows
// behind those of the model's own.
class CpuKvCache final : public KvCache {
public:
  [[nodiscard]] static Expected<std::unique_ptr<CpuKvCache>> make(const weights::ModelConfig& config, int capacity,
                                                                  inventory::IndexKeys index_keys = inventory::IndexKeys::F32);
  ~CpuKvCache() override;
  CpuKvCache(const CpuKvCache&) = delete;
  CpuKvCache& operator=(const CpuKvCache&) = delete;

  [[nodiscard]] int length() const override { return length_; }
  [[nodiscard]] int draft_length() const override { return draft_length_; }
  [[nodiscard]] int capacity() const override { return capacity_; }
  void truncate(int length) override;
  void truncate_drafts(int length) override;
  void grow(int tokens); // after their rows of every layer are (being) written
  void grow_drafts(int tokens);

  // Rows of one head, one position after the other, row_floats() apart.
  [[nodiscard]] float* keys(int layer, int head) { return row_of(layer, 0, head); }
  [[nodiscard]] float* values(int layer, int head) { return latent_ ? row_of(layer, 0, head) : row_of(layer, 1, head); }
  [[nodiscard]] int row_floats() const { return row_floats_; }
  [[nodiscard]] int heads() const { return heads_; } // of a layer

  // The indexer's keys of a layer, one position after the other: floats, or e4m3 codes and their scales.
  [[nodiscard]] inventory::IndexKeys index_key_type() const { return index_type_; }
  [[nodiscard]] float* index_keys(int layer) { return reinterpret_cast<float*>(index_layer(layer)); }
  [[nodiscard]] std::uint8_t* index_codes(int layer) { return reinterpret_cast<std::uint8_t*>(index_layer(layer)); }
  [[nodiscard]] float* index_scales(int layer) {
    return reinterpret_cast<float*>(index_layer(layer) + std::size_t(capacity_) * std::size_t(index_dims_));
  }

private:
  CpuKvCache() = default;
  [[nodiscard]] float* row_of(int layer, int kind, int head) {
    return reinterpret_cast<float*>(data_) +
           std::size_t((layer * (latent_ ? 1 : 2) + kind) * heads_ + head) * std::size_t(capacity_) * std::size_t(row_floats_);
  }
  [[nodiscard]] std::byte* index_layer(int layer) { return data_ + index_at_ + std::size_t(layer) * index_layer_bytes_; }

  bool latent_ = false;
  int heads_ = 0, row_floats_ = 0, capacity_ = 0, length_ = 0, draft_length_ = 0;
  inventory::IndexKeys index_type_ = inventory::IndexKeys::F32;
  int index_dims_ = 0;
  std::size_t index_at_ = 0, index_layer_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

} // namespace ductl::engine
