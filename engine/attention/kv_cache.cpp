#include "engine/attention/kv_cache.hpp"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace ductl::engine {

Expected<std::unique_ptr<CpuKvCache>> CpuKvCache::make(const weights::ModelConfig& config, int capacity) {
  if (capacity < 1) return fail(ErrorCode::kContextLength, fmt::format("a context of {} tokens is impossible", capacity));
  std::unique_ptr<CpuKvCache> cache(new CpuKvCache);
  cache->latent_ = config.mla.kv_lora_rank > 0;
  cache->heads_ = cache->latent_ ? 1 : config.kv_heads;
  cache->row_floats_ = cache->latent_ ? config.mla.kv_lora_rank + config.mla.rope_dim : config.head_dim;
  cache->capacity_ = capacity;
  const std::size_t rows =
      std::size_t(config.layers) * (cache->latent_ ? 1 : 2) * std::size_t(cache->heads_) * std::size_t(capacity);
  cache->bytes_ = rows * std::size_t(cache->row_floats_) * sizeof(float);
  void* data = ::mmap(nullptr, cache->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kHostMemory,
                fmt::format("no {:.1f} GB of address space for the KV cache of {} tokens: {}", double(cache->bytes_) * 1e-9,
                            capacity, std::strerror(errno)),
                {}, "set a smaller engine.context_length in the inventory");
  }
  cache->data_ = static_cast<float*>(data);
  return cache;
}

CpuKvCache::~CpuKvCache() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void CpuKvCache::truncate(int length) {
  assert(length >= 0 && length <= length_);
  length_ = length;
}

void CpuKvCache::grow(int tokens) {
  assert(length_ + tokens <= capacity_);
  length_ += tokens;
}

} // namespace ductl::engine
