#include "agent/kernels/expert.hpp"

#include <cpuid.h>
#include <cstdlib>
#include <string_view>

namespace ductl::agent {

// 32 rows x 128 columns of decoded weights, then a token's 32 gate and up sums and its 16 values of h.
std::size_t kernel_scratch_floats(int /*hidden*/, int tokens_max) { return 32 * 128 + static_cast<std::size_t>(tokens_max) * 48; }

bool cpu_has_avx2() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0; // not every compiler can be asked for f16c by name
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; // those two ask the system as well
}

const ExpertKernels& select_kernels() {
  const bool wide = cpu_has_avx2();
  const char* forced = std::getenv("DUCTL_KERNELS");
  if (forced != nullptr && std::string_view(forced) == "scalar") return scalar_kernels();
  return wide ? avx2_kernels() : scalar_kernels(); // "avx2" without the instructions: an illegal instruction helps nobody
}

} // namespace ductl::agent
