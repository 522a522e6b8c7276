// Expert kernels: one slice applied to a few tokens. Bits and order: docs/slices.md.
//
// Free functions behind a table that is chosen once at start. No allocation, no logging, no globals. The AVX2 and the
// scalar table give the same bits for every input, batch size and token position.
#pragma once

#include "inventory/error.hpp"

#include <cstddef>
#include <cstdint>

namespace ductl::agent {

inline constexpr int kTokensMax = 64; // of one slice_forward call (and so of one round)

struct SliceJob {
  const std::byte* slice = nullptr;   // stored form, 64-byte aligned
  int hidden = 0;                     // a multiple of 32
  int tokens = 0;                     // 1..kTokensMax
  const float* const* x = nullptr;    // [tokens] -> [hidden] hidden state
  const float* weight = nullptr;      // [tokens] router weight, folded into h
  const float* fixed_scale = nullptr; // [ceil(hidden/128)] 2^(exponent - 8 * rung)
  float guard_factor = 0;             // max |down weight| * scale * fixed_scale of this slice, see slice_guard_factor
  std::int32_t* const* y = nullptr;   // [tokens] -> [hidden], added to (wraps; the guard tells)
  std::uint64_t* guard = nullptr;     // [tokens], ceil(guard_factor * |h|_1) added; 2^62 when not finite
  float* scratch = nullptr;           // kernel_scratch_floats(hidden, tokens) floats, 64-byte aligned
};

struct ExpertKernels {
  const char* name; // "avx2", "scalar"
  void (*slice_forward)(const SliceJob& job);
};

[[nodiscard]] std::size_t kernel_scratch_floats(int hidden, int tokens_max);
// The largest |down weight| * down scale * fixed_scale over the slice's rows; rounded up. Computed once per slice and rung 0;
// for rung r multiply by 2^(-8r).
[[nodiscard]] float slice_guard_factor(const std::byte* slice, int hidden, const float* fixed_scale);

[[nodiscard]] const ExpertKernels& scalar_kernels();
[[nodiscard]] const ExpertKernels& avx2_kernels(); // only where cpu_has_avx2()
// $DUCTL_KERNELS = "scalar" or "avx2" forces one (kUsage for another name, and for what this CPU lacks); else the best that this
// CPU has. Never null.
[[nodiscard]] Expected<const ExpertKernels*> select_kernels();

} // namespace ductl::agent
