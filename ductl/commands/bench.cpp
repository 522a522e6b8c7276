#include "ductl/commands/bench.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/power/foreground.hpp"
#include "ductl/power/launch.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace ductl::commands {
namespace {

struct BenchOptions {
  int set_mib = 0; // 0 = three times the last level cache
  int samples = 9;
};

ExitCode run_kernels(CommandContext& context, const BenchOptions& options) {
  const auto program = power::sibling_program("duck-agent");
  if (!program) return context.report(program.error());
  std::vector<std::string> words{"bench", "--samples", std::to_string(options.samples)};
  if (options.set_mib > 0) words.insert(words.end(), {"--set-mib", std::to_string(options.set_mib)});
  const InterruptWatch interrupts(SecondSignal::Ignored);
  const auto code = power::run_foreground(*program, words, [] { return InterruptWatch::signal() != 0; });
  if (!code) return context.report(code.error());
  return InterruptWatch::signal() != 0 ? InterruptWatch::exit_code() : static_cast<ExitCode>(*code);
}

} // namespace

void add_bench(CLI::App& app, CommandContext& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what this machine's kernels reach");
  bench->require_subcommand(1);
  CLI::App* kernels = bench->add_subcommand("kernels", "Expert kernels against this machine's streaming read and FMA peak");
  const auto options = std::make_shared<BenchOptions>();
  kernels->add_option("--set-mib", options->set_mib, "Weights to run over; three times the last level cache when not given")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  kernels->add_option("--samples", options->samples, "Pairs of samples a figure")->type_name("N")->check(CLI::Range(3, 1001));
  kernels->footer("Always JSON, on stdout; docs/kernels.md says what each figure means. Takes some minutes and much memory.\n"
                  "DUCTL_KERNELS names the kernels to measure. Stop what else runs: figures are ratios, but caches are shared.");
  kernels->callback([&context, options] { context.choose([&context, options] { return run_kernels(context, *options); }); });
}

} // namespace ductl::commands
