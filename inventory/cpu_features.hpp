// What this machine's instructions allow. F16C is read from cpuid, since not every compiler can be asked for it by name; the
// other two ask the operating system as well.
#pragma once

#include <cpuid.h>

namespace ductl {

// AVX2, FMA and F16C: what every vector kernel of the house is compiled for.
[[nodiscard]] inline bool cpu_has_avx2() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

} // namespace ductl
