// What `up`, `down` and `plan` share for people: stages painted on stderr, actions in words, the errors of a walk.
#pragma once

#include "ductl/commands/command.hpp"
#include "ductl/reconcile/planner.hpp"
#include "ductl/view/progress.hpp"

#include <mutex>
#include <span>

namespace ductl::commands {

// Paints on the context's stderr, and says once that an interruption was heard. Any thread.
class WalkView {
public:
  explicit WalkView(CommandContext& context)
      : context_(context), painter_(context.err.is_terminal, context.err.colour, context.err.columns) {}
  void show(const view::StageProgress& progress);
  void close();                     // before anything else is written to stderr
  [[nodiscard]] bool interrupted(); // as InterruptWatch::signal() has it

private:
  CommandContext& context_;
  std::mutex mutex_; // below
  bool told_ = false;
  view::ProgressPainter painter_;
};

// "+ start duck01 (is off)", "~ fill duck03: 24 slices, 740 KiB (holds nothing yet)".
[[nodiscard]] std::string action_text(const reconcile::Action& action);
// "Plan: 4 to start, 4 to fill (79.1 MiB), 1 engine to start. 0 ducks unchanged."
[[nodiscard]] std::string plan_summary(const reconcile::Plan& plan);
[[nodiscard]] nlohmann::ordered_json action_json(const reconcile::Action& action);

// All of them, the first one last (it is the cause of the others more often than not). 130 or 143 after an interruption.
ExitCode report_errors(CommandContext& context, std::span<const Error> errors);

} // namespace ductl::commands
