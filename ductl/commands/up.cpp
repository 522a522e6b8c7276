#include "ductl/commands/up.hpp"

#include "agent/client/api_keys.hpp"
#include "ductl/commands/chat_format_option.hpp"
#include "ductl/commands/command.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/commands/walk_view.hpp"
#include "ductl/reconcile/engine_probe.hpp"
#include "ductl/reconcile/raise.hpp"
#include "ductl/view/format.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

constexpr std::chrono::milliseconds kFirstTokenLimit{120'000}; // a model that pages in from disk

std::int64_t milliseconds_since(Instant start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

void write_result(CommandContext& context, const inventory::Flock& flock, const reconcile::ReconcileReport& report,
                  std::int64_t elapsed_ms, std::optional<std::int64_t> first_token_ms) {
  if (context.wants_json()) {
    context.write_json({{"schema", "ductl/up/v1"},
                        {"changed", report.actions > 0},
                        {"actions", report.actions},
                        {"bytes_sent", report.bytes_sent},
                        {"elapsed_ms", elapsed_ms},
                        {"first_token_ms", first_token_ms ? nlohmann::ordered_json(*first_token_ms) : nlohmann::ordered_json()}});
    return;
  }
  const std::size_t ducks = flock.ducks.size();
  if (report.actions == 0) {
    context.out.write(fmt::format("Nothing to do: {0}/{0} ducks match inventory.\n", ducks));
    return;
  }
  context.out.write(
      fmt::format("Serving: {0}/{0} ducks, {1}, {2} sent, first token after {3}. Talk to it: {4}\n", ducks,
                  view::plural(static_cast<std::uint64_t>(report.actions), "action"), view::bytes_text(report.bytes_sent),
                  view::duration_text(std::chrono::milliseconds(first_token_ms.value_or(0))), context.command_text("chat")));
}

ExitCode run_up(CommandContext& context, const std::string& chat_format) {
  const Instant start = Clock::now();
  const inventory::Flock* inventory = context.flock();
  if (inventory == nullptr) return ExitCode::Usage;
  const InterruptWatch interrupts;
  reconcile::LocalFlock flock(with_chat_format(*inventory, chat_format), agent::state_folder(inventory->name));
  WalkView view(context);
  reconcile::WalkOptions walk;
  walk.interrupted = [&view] { return view.interrupted(); };
  walk.on_stage = [&](const view::StageProgress& progress) { view.show(progress); };

  const reconcile::ReconcileReport report = reconcile::raise_flock(flock, walk);
  view.close();
  if (!report.converged()) return report_errors(context, report.errors);
  std::optional<std::int64_t> first_token_ms;
  if (report.actions > 0) { // what has changed must show that it works
    const auto answered =
        reconcile::ask_one_token(inventory->engine.api_address, report.observed.engine.api_port,
                                 agent::own_api_key(flock.state().api_keys()), kFirstTokenLimit, walk.interrupted);
    if (!answered) {
      Error error = answered.error();
      if (error.code != ErrorCode::kCancelled) error.place = flock.state().log(reconcile::kEngineProcess).string();
      return report_errors(context, {&error, 1});
    }
    first_token_ms = milliseconds_since(start);
  }
  write_result(context, *inventory, report, milliseconds_since(start), first_token_ms);
  return ExitCode::Ok;
}

} // namespace

void add_up(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("up", "Raise the flock: start ducks, send slices, start the engine");
  const auto chat_format = std::make_shared<std::string>();
  add_chat_format_option(*verb, *chat_format);
  verb->footer(
      "Compares what is with what the inventory wants, and does only what is missing. A second `ductl up` does nothing.\n"
      "After a duck has died, `ductl up` starts it again and sends it its slices.\n"
      "--chat-format holds until the next `ductl up` without it; model.chat_format of the inventory is for good.\n"
      "Examples:\n  ductl up\n  ductl -i flock.toml up -o json\n"
      "`ductl plan` shows what it would do. Logs: $XDG_STATE_HOME/ductl/FLOCK/log (docs/operations.md).");
  verb->callback([&context, chat_format] { context.choose([&context, chat_format] { return run_up(context, *chat_format); }); });
}

} // namespace ductl::commands
