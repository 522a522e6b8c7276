// `duck-agent bench`: what the expert kernels reach of this machine, in ratios that hold on a noisy one.
//
// Every figure comes of pairs: kernel and yardstick alternate, each on memory that has not been read for longer than the last
// level cache is large, and the medians of the pairs' ratios are reported. docs/kernels.md says what each figure means.
#pragma once

#include "agent/kernels/expert.hpp"
#include "inventory/error.hpp"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ductl::agent::bench {

struct BenchOptions {
  int samples = 9;           // pairs a figure
  std::size_t set_bytes = 0; // of weights; 0 = three times the last level cache, 512 MiB at least
  std::function<void(const std::string&)> on_row = [](const std::string&) {}; // as each row begins
};

// "ductl/bench-kernels/v1". kUsage when the set would not exceed the last level cache, kHostMemory when there is no room for it.
[[nodiscard]] Expected<nlohmann::ordered_json> bench_kernels(const ExpertKernels& kernels, const BenchOptions& options);

} // namespace ductl::agent::bench
