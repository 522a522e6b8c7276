#include "engine/attention/kv_cache.hpp"

#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace ductl::engine {

Expected<std::unique_ptr<CpuKvCache>> CpuKvCache::make(const weights::ModelConfig& config, int capacity,
                                                       inventory::IndexKeys index_keys) {
  if (capacity < 1) return fail(ErrorCode::kContextLength, fmt::format("a context of {} tokens is impossible", capacity));
  std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
  cache->latent_ = config.mla.kv_lora_rank > 0;
  cache->heads_ = cache->latent_ ? 1 : config.kv_heads;
  cache->row_floats_ = cache->latent_ ? config.mla.kv_lora_rank + config.mla.rope_dim : config.head_dim;
  cache->capacity_ = capacity;
  const auto layers = std::size_t(weights::decoder_layers(config)), positions = std::size_t(capacity);
  const std::size_t rows = layers * (cache->latent_ ? 1 : 2) * std::size_t(cache->heads_) * positions;
  cache->index_at_ = rows * std::size_t(cache->row_floats_) * sizeof(float);
  cache->index_type_ = index_keys;
  cache->index_dims_ = config.indexer.heads > 0 ? config.indexer.head_dim : 0;
  const auto dims = std::size_t(cache->index_dims_);
  if (dims > 0)
    cache->index_layer_bytes_ =
        positions * (index_keys == inventory::IndexKeys::Fp8 ? dims + sizeof(float) : dims * sizeof(float));
  cache->bytes_ = cache->index_at_ + layers * cache->index_layer_bytes_;
  void* data = ::mmap(nullptr, cache->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kHostMemory,
                fmt::format("no {:.1f} GB of address space for the KV cache of {} tokens: {}", double(cache->bytes_) * 1e-9,
                            capacity, std::strerror(errno)),
                {}, "set a smaller engine.context_length in the inventory");
  }
  cache->data_ = static_cast<std::byte*>(data);
  return cache;
}

CpuKvCache::~CpuKvCache() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void CpuKvCache::truncate(int length) {
  assert(length >= 0 && length <= length_);
  length_ = length;
  draft_length_ = std::min(draft_length_, length);
}

void CpuKvCache::truncate_drafts(int length) {
  assert(length >= 0 && length <= draft_length_);
  draft_length_ = length;
}

void CpuKvCache::grow(int tokens) {
  assert(length_ + tokens <= capacity_);
  length_ += tokens;
}

void CpuKvCache::grow_drafts(int tokens) {
  assert(draft_length_ + tokens <= length_);
  draft_length_ += tokens;
}

} // namespace ductl::engine
