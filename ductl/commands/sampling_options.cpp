#include "ductl/commands/sampling_options.hpp"

#include <CLI/CLI.hpp>

namespace ductl::commands {

void add_ask_options(CLI::App& verb, AskOptions& options) {
  ChatSampling& sampling = options.sampling;
  verb.add_option("--system", options.system, "What the model should be and do")->type_name("TEXT");
  verb.add_option("--max-tokens", sampling.tokens_max, "Longest answer")->check(CLI::PositiveNumber)->type_name("N");
  const char* group = "Sampling (without any of these the likeliest token is taken every time)";
  verb.add_option("--temperature", sampling.temperature, "0 = always the likeliest token; 1 = as the model says")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("T")
      ->group(group);
  verb.add_option("--top-p", sampling.top_p, "Only the likeliest tokens that make up this share")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P")
      ->group(group);
  verb.add_option("--top-k", sampling.top_k, "Only the K likeliest tokens")
      ->check(CLI::NonNegativeNumber)
      ->type_name("K")
      ->group(group);
  verb.add_option("--min-p", sampling.min_p, "Only tokens at least P times as likely as the likeliest")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P")
      ->group(group);
  verb.add_option("--seed", sampling.seed, "The same seed draws the same answer")->type_name("N")->group(group);
  verb.add_option("--repetition-penalty", sampling.repetition_penalty, "Above 1: what was said becomes less likely")
      ->check(CLI::Range(0.01, 100.0))
      ->type_name("R");
}

} // namespace ductl::commands
