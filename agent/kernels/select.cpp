#include "agent/kernels/expert.hpp"

#include "inventory/cpu_features.hpp"

#include <cstdlib>
#include <string_view>

namespace ductl::agent {

// 32 rows x 128 columns of decoded weights, then a token's 32 gate and up sums and its 16 values of h.
std::size_t kernel_scratch_floats(int /*hidden*/, int tokens_max) { return 32 * 128 + static_cast<std::size_t>(tokens_max) * 48; }

const ExpertKernels& select_kernels() {
  const bool wide = cpu_has_avx2();
  const char* forced = std::getenv("DUCTL_KERNELS");
  if (forced != nullptr && std::string_view(forced) == "scalar") return scalar_kernels();
  return wide ? avx2_kernels() : scalar_kernels(); // "avx2" without the instructions: an illegal instruction helps nobody
}

} // namespace ductl::agent
