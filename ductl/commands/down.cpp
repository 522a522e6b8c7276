#include "ductl/commands/down.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/commands/walk_view.hpp"
#include "ductl/reconcile/diagnosis.hpp"
#include "ductl/reconcile/raise.hpp"
#include "ductl/view/format.hpp"
#include "inventory/error_json.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

struct DownOptions {
  bool dry_run = false;
};

void write_nothing(CommandContext& context, const std::string& flock) {
  context.out.write(fmt::format("Nothing to do: nothing of flock {} runs.\n", flock));
}

void write_plan(CommandContext& context, const std::string& flock, const reconcile::Plan& plan) {
  nlohmann::ordered_json actions = nlohmann::ordered_json::array();
  for (const reconcile::Action& action : plan.actions) actions.push_back(action_json(action));
  if (context.wants_json())
    context.write_json({{"schema", "ductl/down/v1"}, {"changed", false}, {"actions", 0}, {"plan", actions}});
  else if (plan.actions.empty())
    write_nothing(context, flock);
}

// What runs: processes, or an engine and machines.
std::string things(bool machines, int count) {
  const auto number = static_cast<std::uint64_t>(count);
  return machines ? fmt::format("{} (engine and machines)", count) : view::plural(number, "process", "processes");
}

void write_result(CommandContext& context, const std::string& flock, bool machines, int actions) {
  if (context.wants_json()) {
    context.write_json({{"schema", "ductl/down/v1"}, {"changed", actions > 0}, {"actions", actions}});
  } else if (actions == 0) {
    write_nothing(context, flock);
  } else {
    context.out.write(fmt::format("Stopped: {} of flock {}.\n", things(machines, actions), flock));
  }
}

// A machine that is switched off with wake-on-LAN unarmed is lost to everybody but who can press its button.
void warn_of_deep_sleepers(CommandContext& context, const reconcile::Observed& observed) {
  for (const reconcile::ObservedDuck& duck : observed.ducks) {
    const agent::HealthCheck* armed = duck.health ? agent::find(*duck.health, agent::check::kWakeOnLan) : nullptr;
    if (armed == nullptr || armed->state == agent::HealthState::Ok) continue;
    context.err.write(fmt::format("{} may not wake again by itself (wake-on-LAN: {}): have its button at hand\n", duck.name,
                                  armed->value.empty() ? armed->advice : armed->value));
  }
}

// Stopping what runs is not all where machines are about to.
ExitCode finish(CommandContext& context, const reconcile::Observed& observed, const std::function<void()>& write) {
  const auto left = reconcile::booting_left(observed);
  if (!left) {
    write();
    return ExitCode::Ok;
  }
  return report_errors(context, {&*left, 1});
}

ExitCode run_down(CommandContext& context, const DownOptions& options) {
  const inventory::Flock* inventory = context.flock();
  if (inventory == nullptr) return ExitCode::Usage;
  reconcile::LocalFlock flock(*inventory, agent::state_folder(inventory->name));
  if (const auto ok = agent::check_state_folder(flock.state()); !ok) return context.report(ok.error());
  const reconcile::Desired desired = reconcile::remembered_state(*inventory, flock.state(), reconcile::Goal::Down);
  const reconcile::Observed observed = flock.hands().observe(desired);
  const reconcile::Plan plan = reconcile::plan_actions(desired, observed);
  for (const reconcile::Action& action : plan.actions) context.err.write(action_text(action) + "\n");
  warn_of_deep_sleepers(context, observed);
  const int count = static_cast<int>(plan.actions.size());
  const bool machines = !inventory::has_local_ducks(*inventory);
  if (options.dry_run) {
    return finish(context, observed, [&] { write_plan(context, inventory->name, plan); });
  }
  // A flock of processes is soon up again, so that scripts need no --yes; a person at a terminal is asked.
  if (count > 0 && context.input_is_terminal && context.err.is_terminal) {
    const auto confirmed = context.confirm(
        machines ? fmt::format("stop the engine and power off these machines of flock {}", inventory->name)
                 : fmt::format("stop {} of flock {}", count == 1 ? "this process" : "these processes", inventory->name));
    if (!confirmed) {
      context.say("not confirmed: nothing was stopped");
      if (context.wants_json()) context.write_json(errors_document({&confirmed.error(), 1}));
      return ExitCode::Failed;
    }
  }
  const InterruptWatch interrupts;
  WalkView view(context);
  reconcile::WalkOptions walk;
  walk.interrupted = [&view] { return view.interrupted(); };
  walk.on_stage = [&](const view::StageProgress& progress) { view.show(progress); };
  const reconcile::ReconcileReport report = reconcile::lower_flock(flock, walk);
  view.close();
  if (!report.converged()) return report_errors(context, report.errors);
  return finish(context, report.observed, [&] { write_result(context, inventory->name, machines, report.actions); });
}

} // namespace

void add_down(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("down", "Stop the engine and every duck of the flock");
  const auto options = std::make_shared<DownOptions>();
  verb->add_flag("--dry-run", options->dry_run, "Only say what would be stopped");
  verb->footer("Says what it will stop, and asks on a terminal (--yes: does not ask). Key, placement and logs stay in the state\n"
               "folder; slices are gone with the ducks' memory, and `ductl up` sends them again.");
  verb->callback([&context, options] { context.choose([&context, options] { return run_down(context, *options); }); });
}

} // namespace ductl::commands
