#include "ductl/commands/model.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/engine_errand.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/reconcile/temporary_flock.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ductl::commands {
namespace {

struct ModelOptions {
  std::string verb, path;
  int ducks = 0;   // 0 = none: the engine computes every FFN itself, unquantised
  int threads = 0; // 0 = one a core
  bool no_ducks = false, no_special = false, all = false;
  std::string ids, text, hidden, index_keys, host_ffn;
  std::string flock_file = {}; // of the flock that it is shown on; "" = none
};

// What duck-engine understands (engine/main.cpp), without the place of the ducks.
std::vector<std::string> engine_arguments(const CommandContext& context, const ModelOptions& options) {
  std::vector<std::string> words;
  if (context.wants_json()) words.emplace_back("--json-errors");
  words.insert(words.end(), {"model", options.verb, options.path});
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  if (options.verb == "logits") words.insert(words.end(), {"--ids", options.ids}); // also an empty one, to be refused as such
  add("--text", options.text);
  add("--hidden", options.hidden);
  add("--index-keys", options.index_keys);
  add("--host-ffn", options.host_ffn);
  if (options.verb == "show") add("--flock", options.flock_file);
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  if (options.all) words.emplace_back("--all");
  if (options.no_special) words.emplace_back("--no-special");
  if (options.verb == "show" && context.wants_json()) words.emplace_back("--json");
  return words;
}

ExitCode run_model(CommandContext& context, ModelOptions options) {
  if (options.verb == "show" && !context.inventory_option.empty()) { // every fault of the file is told here
    if (context.flock() == nullptr) return ExitCode::Usage;
    options.flock_file = context.inventory_option;
  }
  const InterruptWatch interrupts(SecondSignal::Ignored); // the temporary flock goes down, however often somebody presses Ctrl-C
  std::vector<std::string> arguments = engine_arguments(context, options);
  if (options.ducks > 0) return run_engine_with_ducks(context, options.ducks, options.path, arguments);
  if (options.verb == "logits" || options.verb == "perplexity") arguments.emplace_back("--no-ducks");
  return run_engine(context, arguments);
}

CLI::App* add_verb(CLI::App& model, CommandContext& context, const std::shared_ptr<ModelOptions>& options, const char* name,
                   const char* description, const char* examples) {
  CLI::App* verb = model.add_subcommand(name, description);
  verb->footer(std::string("Examples:\n") + examples);
  verb->add_option("PATH", options->path, "A checkpoint's folder, or org/name in the Hugging Face cache")->required();
  verb->callback([&context, options, name] {
    options->verb = name;
    context.choose([&context, options] { return run_model(context, *options); });
  });
  return verb;
}

void add_ducks(CLI::App& verb, const std::shared_ptr<ModelOptions>& options) {
  CLI::Option* ducks = verb.add_option("--ducks", options->ducks, "Through a temporary flock of N local ducks")
                           ->type_name("N")
                           ->check(CLI::Range(1, reconcile::kTemporaryDucksMax));
  verb.add_flag("--no-ducks", options->no_ducks, "Unquantised weights, all in one process (the default)")->excludes(ducks);
  verb.add_option("--hidden", options->hidden, "How hidden states travel to the ducks")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->needs(ducks);
  verb.add_option("--index-keys", options->index_keys, "How sparse attention's indexer caches its keys")
      ->check(CLI::IsMember({"f32", "fp8"}));
  verb.add_option("--threads", options->threads, "Of the engine; one a core when not given")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

} // namespace

void add_model(CLI::App& app, CommandContext& context) {
  CLI::App* model = app.add_subcommand("model", "Look into a model: sizes, tokens, logits, perplexity");
  model->require_subcommand(1);
  model->footer("`ductl model VERB --help` shows options and examples.");
  const auto options = std::make_shared<ModelOptions>();
  CLI::App* show = add_verb(*model, context, options, "show", "Family, sizes and memory; with -i, whether it fits that flock",
                            "  ductl model show weights/duckling\n"
                            "  ductl model show deepseek-ai/DeepSeek-V3.2 -i inventory/home.toml\n"
                            "A folder with config.json alone will do.");
  show->add_option("--host-ffn", options->host_ffn, "Which FFNs to count on the host: none (as the engine runs), or dense,shared")
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool known = text == "none" || text == "dense,shared";
            return known ? std::string() : fmt::format("\"{}\" is neither none nor dense,shared", text);
          },
          "", "none or dense,shared"));
  CLI::App* tokenize = add_verb(*model, context, options, "tokenize", R"(JSON lines {"text": ...} on stdin -> {"ids": [...]})",
                                "  echo '{\"text\": \"Hello\"}' | ductl model tokenize weights/duckling");
  tokenize->add_flag("--no-special", options->no_special, "Text never yields an added token");
  add_verb(*model, context, options, "detokenize", R"(JSON lines {"ids": [...]} on stdin -> {"text": ...})",
           "  echo '{\"ids\": [72, 105]}' | ductl model detokenize weights/duckling");
  CLI::App* logits = add_verb(*model, context, options, "logits", "Logits of given tokens",
                              "  ductl model logits weights/duckling --ids 1,2,3\n"
                              "  ductl model logits weights/duckling --ids 1,2,3 --all --ducks 4\n"
                              "--ducks N raises a flock of its own for this one command and leaves nothing of it behind.");
  logits->add_option("--ids", options->ids, "Token ids, taken as they are")->type_name("1,2,3")->required();
  logits->add_flag("--all", options->all, "Of every position, not of the last one only");
  add_ducks(*logits, options);
  CLI::App* perplexity = add_verb(*model, context, options, "perplexity", "Perplexity on a text, in windows of 1,024 tokens",
                                  "  ductl model perplexity weights/duckling --text book.txt\n"
                                  "  ductl model perplexity weights/duckling --text book.txt --ducks 4 --hidden bf16\n"
                                  "--ducks N raises a flock of its own for this one command and leaves nothing of it behind.");
  perplexity->add_option("--text", options->text, "A UTF-8 file")->type_name("FILE")->required()->check(CLI::ExistingFile);
  add_ducks(*perplexity, options);
}

} // namespace ductl::commands
