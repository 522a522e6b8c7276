#include "engine/attention/kernels/kernels.hpp"

#include <cpuid.h>

namespace ductl::engine {
namespace {

// F16C is read from cpuid: not every compiler can be asked for it by name. The other two ask the system as well.
bool cpu_has_avx2() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

} // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels kScalar{"scalar",        dense_product_scalar, dense_transposed_scalar,
                                   rms_norm_scalar, softmax_scalar,       silu_multiply_scalar};
  return kScalar;
}

const Kernels* avx2_kernels() {
  static constexpr Kernels kAvx2{"avx2",        dense_product_avx2, dense_transposed_avx2,
                                 rms_norm_avx2, softmax_avx2,       silu_multiply_avx2};
  static const bool kThere = cpu_has_avx2();
  return kThere ? &kAvx2 : nullptr;
}

const Kernels& kernels() {
  static const Kernels& chosen = avx2_kernels() != nullptr ? *avx2_kernels() : scalar_kernels();
  return chosen;
}

} // namespace ductl::engine
