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

// Gracemont and its successors (Intel N-series and other chips that have nothing but efficiency cores): 256-bit integer
// operations are two each there, and single-ported where they cross lanes. Models by Intel's family and model numbers.
[[nodiscard]] inline bool cpu_splits_wide_integers() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_INTEL_ebx) return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned family = (eax >> 8) & 15, model = ((eax >> 4) & 15) | ((eax >> 12) & 0xF0);
  constexpr unsigned kAlderLakeN = 0xBE, kSierraForest = 0xAF, kGrandRidge = 0xB6;
  return family == 6 && (model == kAlderLakeN || model == kSierraForest || model == kGrandRidge);
}

} // namespace ductl
