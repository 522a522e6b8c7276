#include "ductl/commands/bench.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/engine_errand.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/power/foreground.hpp"
#include "ductl/power/launch.hpp"
#include "ductl/reconcile/temporary_flock.hpp"
#include "weights/random_checkpoint.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

using nlohmann::ordered_json;

struct KernelsOptions {
  int set_mib = 0; // 0 = three times the last level cache
  int samples = 9;
};

struct DecodeOptions {
  std::string config;
  int layers = 0, vocab = 0; // 0 = as the config says
  int ducks = 2, threads = 0, samples = 7;
};

struct Measured {
  ExitCode code = ExitCode::Ok;
  ordered_json figures;
};

// A program of ours that prints one JSON document. What it says instead is passed on.
Measured measure(CommandContext& context, const char* name, std::vector<std::string> words, const KernelsOptions& options) {
  const auto program = power::sibling_program(name);
  if (!program) return {context.report(program.error()), {}};
  words.insert(words.end(), {"--samples", std::to_string(options.samples)});
  if (options.set_mib > 0) words.insert(words.end(), {"--set-mib", std::to_string(options.set_mib)});
  const auto captured = power::run_captured(*program, words, [] { return InterruptWatch::signal() != 0; });
  if (!captured) return {context.report(captured.error()), {}};
  if (InterruptWatch::signal() != 0) return {InterruptWatch::exit_code(), {}};
  ordered_json figures = ordered_json::parse(captured->out, nullptr, false);
  if (captured->code == 0 && figures.is_object()) return {ExitCode::Ok, std::move(figures)};
  context.out.write(captured->out);
  if (captured->code != 0 && captured->code < 128) return {static_cast<ExitCode>(captured->code), {}};
  return {context.report({ErrorCode::kEngineStart,
                          fmt::format("{} ended with status {} and no figures", name, captured->code),
                          "",
                          "was there memory enough? `dmesg` tells whether the kernel ended it",
                          {}}),
          {}};
}

// The ducks' kernels and the host's, measured by the programs that have them, in one document.
ExitCode run_kernels(CommandContext& context, const KernelsOptions& options) {
  const InterruptWatch interrupts(SecondSignal::Ignored);
  Measured ducks = measure(context, "duck-agent", {"bench"}, options);
  if (ducks.code != ExitCode::Ok) return ducks.code;
  const Measured host = measure(context, "duck-engine", {"--json-errors", "bench", "dense"}, options);
  if (host.code != ExitCode::Ok) return host.code;
  ducks.figures.update(host.figures);
  context.out.write(ducks.figures.dump(2) + "\n");
  return ExitCode::Ok;
}

ExitCode run_decode(CommandContext& context, const DecodeOptions& options) {
  const weights::RandomShape shape{std::filesystem::absolute(options.config).lexically_normal(), options.layers, options.vocab};
  if (const auto config = weights::random_config(shape); !config) return context.report(config.error());
  std::vector<std::string> arguments;
  if (context.wants_json()) arguments.emplace_back("--json-errors");
  arguments.insert(arguments.end(), {"bench", "decode", "--threads", std::to_string(options.threads), "--samples",
                                     std::to_string(options.samples)});
  const InterruptWatch interrupts(SecondSignal::Ignored); // the flock goes down, however often somebody presses Ctrl-C
  return run_engine_with_ducks(context, options.ducks, weights::random_source(shape), std::move(arguments));
}

void add_kernels(CLI::App& bench, CommandContext& context) {
  CLI::App* kernels =
      bench.add_subcommand("kernels", "Expert kernels and the host's own against this machine's streaming read and FMA peak");
  const auto options = std::make_shared<KernelsOptions>();
  kernels->add_option("--set-mib", options->set_mib, "Weights to run over; three times the last level cache when not given")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  kernels->add_option("--samples", options->samples, "Pairs of samples a figure")->type_name("N")->check(CLI::Range(3, 1001));
  kernels->footer("Always JSON, on stdout; docs/kernels.md says what each figure means. Takes some minutes and much memory.\n"
                  "DUCTL_KERNELS names the kernels to measure. Stop what else runs: figures are ratios, but caches are shared.");
  kernels->callback([&context, options] { context.choose([&context, options] { return run_kernels(context, *options); }); });
}

void add_decode(CLI::App& bench, CommandContext& context) {
  CLI::App* decode = bench.add_subcommand("decode", "The whole engine on random weights in the shape of a model");
  const auto options = std::make_shared<DecodeOptions>();
  decode->add_option("--config", options->config, "A model's config.json; no weights are needed")
      ->type_name("FILE")
      ->required()
      ->check(CLI::ExistingFile);
  decode->add_option("--layers", options->layers, "Only the first N layers")->type_name("N")->check(CLI::Range(1, 100'000));
  decode->add_option("--vocab", options->vocab, "Another size of the vocabulary")->type_name("N")->check(CLI::Range(2, 1 << 20));
  decode->add_option("--ducks", options->ducks, "Local ducks, as processes of this machine; 2 when not given")
      ->type_name("N")
      ->check(CLI::Range(1, reconcile::kTemporaryDucksMax));
  decode->add_option("--threads", options->threads, "Of the engine; one a core when not given")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  decode->add_option("--samples", options->samples, "Samples; the medians are told")->type_name("N")->check(CLI::Range(1, 1001));
  decode->footer("Examples:\n"
                 "  ductl bench decode --config qwen3-30b-a3b/config.json --layers 4 --vocab 32000 --ducks 2\n"
                 "Always JSON, on stdout; docs/kernels.md says what each figure means. Raises a flock of its own for this one\n"
                 "command and leaves nothing of it behind. A model that does not fit into memory is refused, with figures.");
  decode->callback([&context, options] { context.choose([&context, options] { return run_decode(context, *options); }); });
}

} // namespace

void add_bench(CLI::App& app, CommandContext& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what kernels, and the whole engine, reach on this machine");
  bench->require_subcommand(1);
  bench->footer("`ductl bench WHAT --help` shows options and examples.");
  add_kernels(*bench, context);
  add_decode(*bench, context);
}

} // namespace ductl::commands
