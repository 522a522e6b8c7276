// `duck-engine bench dense`: what the host's own matrix kernels reach on one core, one token against its streaming read, several
// against its multiply-add peak. The host's part of `ductl bench kernels`.
#pragma once

#include "inventory/error.hpp"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ductl::engine {

struct DenseBenchOptions {
  int samples = 9;                                                            // pairs a figure
  std::size_t set_bytes = 0;                                                  // of weights; 0 = as for the expert kernels
  std::function<void(const std::string&)> on_row = [](const std::string&) {}; // as each row begins
};

// {"host_gemv_fraction": the lowest of the bf16 and fp8 rows, "host_kernels": name, "host_shapes": [rows]}. kUsage when the set
// would not exceed the last level cache, kHostMemory when there is no room for it.
[[nodiscard]] Expected<nlohmann::ordered_json> bench_dense(const DenseBenchOptions& options);

} // namespace ductl::engine
