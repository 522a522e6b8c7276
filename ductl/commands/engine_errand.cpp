#include "ductl/commands/engine_errand.hpp"

#include "ductl/commands/interrupt.hpp"
#include "ductl/commands/walk_view.hpp"
#include "ductl/power/foreground.hpp"
#include "ductl/power/launch.hpp"
#include "ductl/reconcile/temporary_flock.hpp"
#include "ductl/view/error_view.hpp"
#include "ductl/view/style.hpp"

#include <csignal>
#include <fmt/format.h>

namespace ductl::commands {
namespace {

ExitCode raise_and_run(CommandContext& context, reconcile::TemporaryFlock& flock, std::vector<std::string> arguments) {
  WalkView view(context);
  reconcile::WalkOptions walk;
  walk.interrupted = [&view] { return view.interrupted(); };
  walk.on_stage = [&](const view::StageProgress& progress) { view.show(progress); };
  const reconcile::ReconcileReport report = flock.raise(walk);
  view.close();
  if (!report.converged()) return report_errors(context, report.errors);
  arguments.insert(arguments.end(), {"--state", flock.state().root.string()});
  return run_engine(context, arguments);
}

} // namespace

ExitCode run_engine(CommandContext& context, const std::vector<std::string>& arguments) {
  const auto program = power::sibling_program(reconcile::kEngineProcess);
  if (!program) return context.report(program.error());
  const auto code = power::run_foreground(*program, arguments, [] { return InterruptWatch::signal() != 0; });
  if (!code) return context.report(code.error());
  if (InterruptWatch::signal() != 0) return InterruptWatch::exit_code();
  constexpr int kSignalled = 128, kPipeClosed = kSignalled + SIGPIPE;
  if (*code == kPipeClosed) return static_cast<ExitCode>(kPipeClosed); // `| head`: of that nobody need be told
  if (*code > kSignalled)                                              // it could say nothing itself
    return context.report({ErrorCode::kEngineStart,
                           fmt::format("duck-engine was ended by signal {}", *code - kSignalled),
                           "",
                           "was there memory enough? `dmesg` tells whether the kernel ended it",
                           {}});
  return static_cast<ExitCode>(*code);
}

ExitCode run_engine_with_ducks(CommandContext& context, int ducks, const std::string& model_source,
                               std::vector<std::string> arguments) {
  auto flock = reconcile::TemporaryFlock::make(ducks, model_source);
  if (!flock) return context.report(flock.error());
  const ExitCode code = raise_and_run(context, **flock, std::move(arguments));
  if (code == ExitCode::Failed && InterruptWatch::signal() == 0) { // the logs that its error named go with the flock
    if (const std::string words = (*flock)->last_words(); !words.empty())
      context.err.write("the last lines of the temporary flock's logs:\n" + view::printable_lines(words));
  }
  const reconcile::ReconcileReport lowered = (*flock)->lower();
  if (!lowered.converged()) { // whatever it answered, processes are left; stdout has its document already
    for (const Error& error : lowered.errors) context.err.write(view::error_text(error, context.err.colour));
    return ExitCode::Failed;
  }
  return code;
}

} // namespace ductl::commands
