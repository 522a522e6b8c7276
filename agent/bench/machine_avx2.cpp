#include "agent/bench/machine_avx2.hpp"

#include <immintrin.h>

namespace ductl::agent::bench {
namespace {

// kLevel: of the cache that is prefetched into; 0 = none.
template <int kLevel> std::uint64_t read_ahead(const std::byte* data, std::size_t bytes, std::size_t ahead) {
  __m256i sum[4] = {};
  for (std::size_t at = 0; at < bytes; at += 128) {
    if constexpr (kLevel > 0) { // clang and g++ do not agree on the type of _mm_prefetch's hint
      constexpr int kLocality = kLevel == 1 ? 3 : 2;
      __builtin_prefetch(data + at + ahead, 0, kLocality);
      __builtin_prefetch(data + at + ahead + 64, 0, kLocality);
    }
    for (std::size_t i = 0; i < 4; ++i)
      sum[i] = _mm256_xor_si256(sum[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at + 32 * i)));
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 1) ^ _mm256_extract_epi64(all, 2) ^
                                    _mm256_extract_epi64(all, 3));
}

} // namespace

std::uint64_t read_stream(const std::byte* data, std::size_t bytes, std::size_t ahead, bool second_level) {
  if (ahead == 0) return read_ahead<0>(data, bytes, 0);
  return second_level ? read_ahead<2>(data, bytes, ahead) : read_ahead<1>(data, bytes, ahead);
}

double multiply_adds(int steps) {
  constexpr int kChains = 12; // more than latency times throughput of any such core
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(1e-3f);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], factor, term);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "x"(sum[i]));
  return 2.0 * 8 * kChains * steps;
}

} // namespace ductl::agent::bench
