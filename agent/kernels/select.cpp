#include "agent/kernels/select.hpp"

#include "inventory/cpu_features.hpp"

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

namespace ductl::agent {

// 32 rows x 128 columns of decoded weights, then a token's 32 gate and up sums and its 16 values of h of each slice.
std::size_t kernel_scratch_floats(int tokens_max) {
  return 32 * 128 + static_cast<std::size_t>(tokens_max) * (32 + 16 * static_cast<std::size_t>(kCallSlicesMax));
}

std::span<const ExpertKernels* const> all_kernels() {
  static const std::array kNarrowFirst{&avx2_narrow_kernels(), &avx2_wide_kernels(), &scalar_kernels()};
  static const std::array kWideFirst{&avx2_wide_kernels(), &avx2_narrow_kernels(), &scalar_kernels()};
  const std::span<const ExpertKernels* const> all = cpu_splits_wide_integers() ? kNarrowFirst : kWideFirst;
  return cpu_has_avx2() ? all : all.last(1);
}

Expected<const ExpertKernels*> select_kernels() {
  const char* variable = std::getenv("DUCTL_KERNELS");
  const std::string forced = variable == nullptr ? "" : variable;
  if (forced.empty()) return all_kernels().front();
  std::vector<const char*> names;
  for (const ExpertKernels* kernels : all_kernels()) {
    if (forced == kernels->name) return kernels;
    names.push_back(kernels->name);
  }
  return fail(ErrorCode::kUsage, fmt::format("this CPU runs no kernels named \"{}\"", forced), "$DUCTL_KERNELS",
              fmt::format("set it to one of {}, or leave it out for the best", fmt::join(names, ", ")));
}

} // namespace ductl::agent
