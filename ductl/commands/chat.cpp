#include "ductl/commands/chat.hpp"

#include "agent/client/state_folder.hpp"
#include "ductl/commands/chat_session.hpp"
#include "ductl/commands/command.hpp"
#include "ductl/commands/engine_client.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/commands/line_reader.hpp"
#include "ductl/commands/sampling_options.hpp"
#include "ductl/view/style.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <fmt/format.h>
#include <memory>

namespace ductl::commands {
namespace {

// One message: asks, streams the answer to stdout. Returns whether there was an answer.
bool answer_message(CommandContext& context, const EngineAddress& engine, ChatSession& session, const std::string& message) {
  bool line_open = false;
  const auto on_text = [&](std::string_view text) {
    context.out.write(context.out.is_terminal ? view::printable_lines(text) : std::string(text));
    line_open = text.back() != '\n';
  };
  const auto stop = [&] { return InterruptWatch::signal() != 0 || context.out.fault() != 0; };
  const auto answer = ask_engine(engine, session.request(message), on_text, stop);
  if (line_open) context.out.write("\n");
  if (!answer) {
    context.report(answer.error());
    return false;
  }
  if (answer->stopped) context.say("stopped");
  if (answer->finish_reason == "length")
    context.say("the answer was cut at the longest length allowed (--max-tokens, or the context)");
  session.take(message, *answer);
  return true;
}

// False = end.
bool take_line(CommandContext& context, const EngineAddress& engine, ChatSession& session, const std::string& line,
               bool& failed) {
  switch (parse_chat_command(line)) {
  case ChatCommand::Empty: return true;
  case ChatCommand::Quit: return false;
  case ChatCommand::Reset:
    session.reset();
    context.say("a new conversation");
    return true;
  case ChatCommand::Stats: context.say(view::printable_lines(session.stats_text())); return true;
  case ChatCommand::Help: context.err.write(chat_help()); return true;
  case ChatCommand::Unknown: context.say("there is no such command; /help lists them"); return true;
  case ChatCommand::None: break;
  }
  if (!answer_message(context, engine, session, line)) failed = true;
  return true;
}

Expected<std::unique_ptr<LineReader>> open_reader(const CommandContext& context, const inventory::Flock& flock) {
  if (!context.input_is_terminal || !context.out.is_terminal) return make_plain_reader();
  const agent::StateFolder folder = agent::state_folder(flock.name);
  if (auto made = agent::make_state_folder(folder); !made) return tl::unexpected(made.error());
  return make_terminal_reader("> ", folder.root / "chat_history");
}

ExitCode run_chat(CommandContext& context, const AskOptions& options) {
  if (context.wants_json())
    return context.report({ErrorCode::kUsage, "chat has no JSON output", "", "`ductl run \"a prompt\" -o json` has", {}});
  const inventory::Flock* flock = context.flock();
  if (flock == nullptr) return ExitCode::Usage;
  const bool interactive = context.input_is_terminal && context.out.is_terminal;
  const InterruptWatch watch(SecondSignal::Ignored);
  auto reader = open_reader(context, *flock);
  if (!reader) return context.report(reader.error());
  if (interactive)
    context.say(fmt::format("talking to the flock \"{}\"; /help shows what can be typed, Ctrl-D ends", flock->name));

  const EngineAddress engine = engine_address(*flock);
  ChatSession session(options.system, options.sampling);
  bool failed = false;
  for (std::string line;;) {
    const LineEvent event = (*reader)->read(line);
    bool more = event != LineEvent::End;
    if (event == LineEvent::Line) more = take_line(context, engine, session, line, failed);
    // Ctrl-C leaves a person the next line to type; nobody is there to go on after any other signal, or off a terminal.
    if (const int signal = InterruptWatch::signal(); signal != 0 && (signal != SIGINT || !interactive)) {
      return InterruptWatch::exit_code();
    }
    if (context.out.fault() != 0) return ExitCode::Failed; // nobody reads what is answered
    if (event == LineEvent::Interrupted) context.err.write("\n");
    InterruptWatch::clear();
    if (!more) {
      if (interactive && event == LineEvent::End) context.err.write("\n");
      break;
    }
  }
  // A person has seen what failed and gone on; a script reads the exit code.
  return failed && !interactive ? ExitCode::Failed : ExitCode::Ok;
}

} // namespace

void add_chat(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("chat", "Talk to the flock");
  auto options = std::make_shared<AskOptions>();
  add_ask_options(*verb, *options);
  verb->footer(
      "While it answers, Ctrl-C stops the answer. /reset begins anew, /stats shows the last answer's cost, Ctrl-D ends.\n"
      "There is no JSON output: `ductl run` has.\n"
      "Without a terminal every line of stdin is a message, and stdout carries only the answers.\n"
      "Examples:\n  ductl chat\n  ductl chat --temperature 0.7 --system \"You are a patient teacher.\"");
  verb->callback([&context, options] { context.choose([&context, options] { return run_chat(context, *options); }); });
}

} // namespace ductl::commands
