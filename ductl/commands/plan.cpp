#include "ductl/commands/plan.hpp"

#include "ductl/commands/chat_format_option.hpp"
#include "ductl/commands/command.hpp"
#include "ductl/commands/walk_view.hpp"
#include "ductl/reconcile/raise.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

struct PlanOptions {
  bool detailed_exit_code = false;
  std::string chat_format;
};

ExitCode run_plan(CommandContext& context, const PlanOptions& options) {
  const inventory::Flock* inventory = context.flock();
  if (inventory == nullptr) return ExitCode::Usage;
  reconcile::LocalFlock flock(with_chat_format(*inventory, options.chat_format), agent::state_folder(inventory->name));
  WalkView view(context);
  reconcile::WalkOptions walk;
  walk.on_stage = [&](const view::StageProgress& progress) { view.show(progress); };
  const Expected<reconcile::Plan> plan = reconcile::plan_flock(flock, walk);
  view.close();
  if (!plan) return context.report(plan.error());
  if (!plan->faults.empty()) return report_errors(context, plan->faults);
  if (context.wants_json()) {
    nlohmann::ordered_json actions = nlohmann::ordered_json::array();
    for (const reconcile::Action& action : plan->actions) actions.push_back(action_json(action));
    context.write_json({{"schema", "ductl/plan/v1"},
                        {"actions", actions},
                        {"ducks_unchanged", plan->ducks_unchanged},
                        {"format", plan->format}});
  } else {
    for (const reconcile::Action& action : plan->actions) context.out.write(action_text(action) + "\n");
    context.out.write(plan_summary(*plan) + "\n");
  }
  return options.detailed_exit_code && !plan->actions.empty() ? ExitCode::ChangesPending : ExitCode::Ok;
}

} // namespace

void add_plan(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("plan", "Show what `ductl up` would do, and why");
  const auto options = std::make_shared<PlanOptions>();
  verb->add_flag("--detailed-exitcode", options->detailed_exit_code, "Exit code 2 when there is something to do");
  add_chat_format_option(*verb, options->chat_format);
  verb->footer("Lines begin with + (start), ~ (change) or - (stop); the last line counts them. Nothing is started or sent.\n"
               "The first time for a model it packs all slices once to know their digests, and keeps those in the cache folder.");
  verb->callback([&context, options] { context.choose([&context, options] { return run_plan(context, *options); }); });
}

} // namespace ductl::commands
