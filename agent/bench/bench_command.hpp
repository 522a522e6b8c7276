// `duck-agent bench [--set-mib N] [--samples N]`: JSON on stdout, progress on stderr. `ductl bench kernels` runs it.
#pragma once

#include <span>
#include <string>

namespace ductl::agent::bench {

// The words after "bench". The program's exit status: 0, 1 when it could not be measured, 64 for a wrong command line.
[[nodiscard]] int run_bench(std::span<const std::string> words);

} // namespace ductl::agent::bench
