#include "ductl/commands/run.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/engine_client.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/commands/sampling_options.hpp"
#include "ductl/view/style.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

struct RunOptions {
  AskOptions ask;
  std::string prompt; // "-" = stdin
  std::string csv_file;
};

Expected<void> write_csv(const std::string& file, const std::string& csv, std::ios::openmode mode) {
  std::ofstream stream(file, std::ios::binary | mode);
  stream << csv;
  stream.close();
  if (!stream)
    return fail(ErrorCode::kOutput, "the token times cannot be written", file, "is the folder there, and may you write to it?");
  return {};
}

nlohmann::ordered_json document(const Answer& answer) {
  return {{"schema", "ductl/run/v1"},
          {"answer", answer.text},
          {"finish_reason", answer.finish_reason},
          {"usage", {{"prompt_tokens", answer.input_tokens}, {"completion_tokens", answer.output_tokens}}},
          {"stats_line", answer.stats_line},
          {"stats", answer.stats_json.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(answer.stats_json)}};
}

ExitCode run_prompt(CommandContext& context, const RunOptions& options) {
  std::string prompt = options.prompt;
  if (prompt == "-") {
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    if (prompt.ends_with('\n')) prompt.pop_back(); // the end of the last line, not part of it
  }
  if (prompt.find_first_not_of(" \t\r\n") == std::string::npos)
    return context.report({ErrorCode::kUsage, "the prompt is empty", "", "ductl run \"a prompt\"", {}});
  const inventory::Flock* flock = context.flock();
  if (flock == nullptr) return ExitCode::Usage;

  ChatRequest request;
  if (!options.ask.system.empty()) request.messages.push_back({"system", options.ask.system});
  request.messages.push_back({"user", prompt});
  request.sampling = options.ask.sampling;
  request.token_times = !options.csv_file.empty();

  if (request.token_times) { // before a minute's answer is computed for it; what the file holds stays until then
    if (const auto writable = write_csv(options.csv_file, "", std::ios::app); !writable) return context.report(writable.error());
  }

  const InterruptWatch watch;
  bool line_open = false; // text stands on stdout without its newline
  const auto on_text = [&](std::string_view text) {
    if (context.wants_json()) return;
    context.out.write(context.out.is_terminal ? view::printable_lines(text) : std::string(text));
    line_open = true;
  };
  const auto stop = [&] { return InterruptWatch::signal() != 0 || context.out.fault() != 0; };
  const auto answer = ask_engine(engine_address(*flock), request, on_text, stop);
  if (line_open) context.out.write("\n");
  if (!answer) return context.report(answer.error());
  if (answer->stopped) {
    context.say(InterruptWatch::signal() != 0 ? "stopped" : "stopped: stdout takes no more");
    return InterruptWatch::signal() != 0 ? InterruptWatch::exit_code() : ExitCode::Failed;
  }
  if (!answer->stats_line.empty()) context.say(view::printable(answer->stats_line));
  if (answer->finish_reason == "length")
    context.say("the answer was cut at the longest length allowed (--max-tokens, limits.request_tokens_max, or the context)");
  if (!options.csv_file.empty()) {
    if (const auto written = write_csv(options.csv_file, answer->token_csv, std::ios::trunc); !written)
      return context.report(written.error());
  }
  if (answer->text.empty())
    return context.report(
        {ErrorCode::kEngineAnswer, "the model gave no answer", "", "ask in another way, or allow more tokens", {}});
  if (context.wants_json()) context.write_json(document(*answer)); // last: an error is a document of its own
  return ExitCode::Ok;
}

} // namespace

void add_run(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("run", "One answer to one prompt, on stdout");
  auto options = std::make_shared<RunOptions>();
  verb->add_option("PROMPT", options->prompt, "The prompt; - reads it from stdin")->required();
  verb->add_option("--csv", options->csv_file, "Write what each token cost (send, wait, compute, fetch, reduce)")
      ->check([](const std::string& file) { return file.empty() ? std::string("the file name is empty") : std::string(); })
      ->type_name("FILE");
  add_ask_options(*verb, options->ask);
  verb->footer("Stdout carries only the answer; the statistics go to stderr.\n"
               "Examples:\n  ductl run \"What is a duck?\"\n"
               "  git diff | ductl run - --system \"Write a commit message for this diff.\"\n"
               "  ductl run \"Is 97 prime?\" --csv tokens.csv -o json | jq -r .answer");
  verb->callback([&context, options] { context.choose([&context, options] { return run_prompt(context, *options); }); });
}

} // namespace ductl::commands
