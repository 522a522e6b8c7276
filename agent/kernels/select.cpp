#include "agent/kernels/expert.hpp"

#include "inventory/cpu_features.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <string>

namespace ductl::agent {

// 32 rows x 128 columns of decoded weights, then a token's 32 gate and up sums and its 16 values of h.
std::size_t kernel_scratch_floats(int /*hidden*/, int tokens_max) { return 32 * 128 + static_cast<std::size_t>(tokens_max) * 48; }

Expected<const ExpertKernels*> select_kernels() {
  const bool wide = cpu_has_avx2();
  const char* variable = std::getenv("DUCTL_KERNELS");
  const std::string forced = variable == nullptr ? "" : variable;
  if (forced.empty()) return wide ? &avx2_kernels() : &scalar_kernels();
  if (forced == "scalar") return &scalar_kernels();
  if (forced == "avx2" && wide) return &avx2_kernels();
  return fail(ErrorCode::kUsage,
              forced == "avx2" ? std::string("this CPU has no AVX2") : fmt::format("there are no kernels named \"{}\"", forced),
              "$DUCTL_KERNELS", "set it to avx2 or scalar, or leave it out for the best that the CPU has");
}

} // namespace ductl::agent
