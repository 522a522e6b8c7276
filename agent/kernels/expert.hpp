// Expert kernels: slices of one expert applied to a few tokens. Bits and order: docs/slices.md; what they cost: docs/kernels.md.
//
// Free functions behind a table that is chosen once at start. No allocation, no logging, no globals. All tables give the same
// bits for every input, batch size, token position and number of slices a call.
#pragma once

#include "weights/tile_format.hpp"

#include <cstddef>
#include <cstdint>

namespace ductl::agent {

inline constexpr int kCallTokensMax = 512; // of one call
inline constexpr int kCallSlicesMax = 8;   // slices of one call

struct ExpertJob {
  weights::TileFormat format = weights::TileFormat::NineBit;
  const std::byte* const* slices = nullptr; // [count], stored form, 64-byte aligned
  int count = 1;                            // 1..kCallSlicesMax
  int hidden = 0;                           // a multiple of 32
  int tokens = 0;                           // 1..kCallTokensMax
  const float* const* x = nullptr;          // [tokens] -> [hidden] hidden state
  const float* weight = nullptr;            // [tokens] router weight, folded into h
  const float* fixed_scale = nullptr;       // [ceil(hidden/128)] 2^(exponent - 8 * rung)
  const float* guard_factor = nullptr;      // [count] max |down weight| * scale * fixed_scale, see slice_guard_factor
  std::int32_t* const* y = nullptr;         // [tokens] -> [hidden], added to (wraps; the guard tells)
  std::uint64_t* guard = nullptr;           // [tokens], ceil(guard_factor * |h|_1) of each slice added; 2^62 when not finite
  float* scratch = nullptr;                 // kernel_scratch_floats(tokens) floats, 64-byte aligned
  const std::byte* next = nullptr;          // the slice that the next call begins with: its head is prefetched. May be null
};

struct ExpertKernels {
  const char* name; // "avx2-128", "avx2-256", "scalar"
  void (*forward)(const ExpertJob& job);
  // forward()'s down products alone, over whatever the scratch holds, for 4 tokens and more: to measure them by themselves.
  void (*down_only)(const ExpertJob& job);
};

[[nodiscard]] std::size_t kernel_scratch_floats(int tokens_max);
// The largest |down weight| * down scale * fixed_scale over the slice's rows; rounded up. Computed once per slice and rung 0;
// for rung r multiply by 2^(-8r).
[[nodiscard]] float slice_guard_factor(const std::byte* slice, int hidden, weights::TileFormat format, const float* fixed_scale);

[[nodiscard]] const ExpertKernels& scalar_kernels();
// 128-bit decoding suits cores that split wide integer operations (Gracemont: Intel N100), 256-bit decoding the others.
[[nodiscard]] const ExpertKernels& avx2_narrow_kernels(); // only where cpu_has_avx2()
[[nodiscard]] const ExpertKernels& avx2_wide_kernels();   // likewise

} // namespace ductl::agent
