#include "engine/bench/decode_bench.hpp"
#include "engine/bench/dense_bench.hpp"
#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "engine/commands/progress_line.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace ductl::engine {
namespace {

Expected<int> number_or(const Arguments& arguments, const char* name, int low, int high, int otherwise) {
  const auto text = arguments.value(name);
  return text ? parse_integer(*text, low, high, name) : Expected<int>(otherwise);
}

} // namespace

Expected<void> run_bench_decode(Words words) {
  const OptionSpec specs[] = {{"--state", true}, {"--threads", true}, {"--samples", true}};
  const auto arguments = Arguments::parse(words, specs, 0);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto state = arguments->require("--state");
  if (!state) return tl::unexpected(state.error());
  const auto threads = number_or(*arguments, "--threads", 0, 1024, 0), samples = number_or(*arguments, "--samples", 1, 1001, 7);
  if (!threads) return tl::unexpected(threads.error());
  if (!samples) return tl::unexpected(samples.error());
  auto flock = read_flock_access(*state);
  if (!flock) return tl::unexpected(flock.error());
  spdlog::set_level(spdlog::level::warn); // stdout is for data
  ProgressLine progress(Clock::now());
  DecodeBenchOptions options;
  options.samples = *samples;
  options.threads = *threads;
  options.ducks = static_cast<int>(flock->serving.ducks.size());
  options.on_progress = [&](const std::string& what, long done, long total) { progress.show(what, done, total); };
  ComputeOptions compute;
  compute.source = flock->serving.model_source;
  compute.flock = std::move(*flock);
  compute.threads = *threads;
  compute.context = [](const weights::ModelConfig& config) { return Expected<int>(bench_context(config)); };
  compute.on_stage = [&](const std::string& stage) { progress.show(stage, 0, 0); };
  const auto model = ComputeModel::open(compute);
  if (!model) return tl::unexpected(model.error());
  const auto figures = bench_decode(**model, options);
  if (!figures) return tl::unexpected(figures.error());
  fmt::print("{}\n", figures->dump(2));
  return {};
}

Expected<void> run_bench_dense(Words words) {
  const OptionSpec specs[] = {{"--samples", true}, {"--set-mib", true}};
  const auto arguments = Arguments::parse(words, specs, 0);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto samples = number_or(*arguments, "--samples", 3, 1001, 9);
  if (!samples) return tl::unexpected(samples.error());
  const auto set_mib = number_or(*arguments, "--set-mib", 1, 1 << 20, 0);
  if (!set_mib) return tl::unexpected(set_mib.error());
  DenseBenchOptions options;
  options.samples = *samples;
  options.set_bytes = static_cast<std::size_t>(*set_mib) << 20;
  options.on_row = [](const std::string& row) { fmt::print(stderr, "{}\n", row); };
  const auto figures = bench_dense(options);
  if (!figures) return tl::unexpected(figures.error());
  fmt::print("{}\n", figures->dump(2));
  return {};
}

} // namespace ductl::engine
