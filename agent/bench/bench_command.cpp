#include "agent/bench/bench_command.hpp"

#include "agent/bench/kernel_bench.hpp"
#include "agent/kernels/select.hpp"
#include "inventory/cpu_features.hpp"
#include "inventory/error_json.hpp"

#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::agent::bench {
namespace {

constexpr std::size_t kMib = 1u << 20;

Expected<std::size_t> number(const std::string& option, const std::string& text, std::size_t low, std::size_t high) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    return fail(ErrorCode::kUsage, fmt::format("{} is \"{}\", expected a number from {} to {}", option, text, low, high));
  return value;
}

Expected<BenchOptions> read_options(std::span<const std::string> words) {
  BenchOptions options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const bool set = words[i] == "--set-mib";
    if ((!set && words[i] != "--samples") || i + 1 == words.size())
      return fail(ErrorCode::kUsage, fmt::format("\"{}\" is no option of duck-agent bench, or lacks its value", words[i]), "",
                  "duck-agent bench [--set-mib N] [--samples N]");
    const auto value = set ? number(words[i], words[i + 1], 1, 1u << 20) : number(words[i], words[i + 1], 3, 1001);
    if (!value) return tl::unexpected(value.error());
    set ? options.set_bytes = *value* kMib : options.samples = static_cast<int>(*value);
  }
  return options;
}

Expected<nlohmann::ordered_json> measure(std::span<const std::string> words) {
  auto options = read_options(words);
  if (!options) return tl::unexpected(options.error());
  if (!cpu_has_avx2())
    return fail(ErrorCode::kUsage, "this CPU has no AVX2, FMA or F16C: only scalar kernels run here", "",
                "measure on the ducks themselves");
  const auto kernels = select_kernels();
  if (!kernels) return tl::unexpected(kernels.error());
  options->on_row = [](const std::string& row) { fmt::print(stderr, "{}\n", row); };
  return bench_kernels(**kernels, *options);
}

} // namespace

int run_bench(std::span<const std::string> words) {
  const auto figures = measure(words);
  if (figures) {
    fmt::print("{}\n", figures->dump(2));
    return 0;
  }
  fmt::print(stderr, "{}\n", figures.error().text());
  fmt::print("{}\n", errors_text({&figures.error(), 1}));
  return figures.error().code == ErrorCode::kUsage ? 64 : 1;
}

} // namespace ductl::agent::bench
