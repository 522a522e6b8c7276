// The command line: global options, one verb, its exit code.
#include "ductl/commands/all_commands.hpp"
#include "ductl/commands/options.hpp"
#include "ductl/commands/parse_fault.hpp"
#include "inventory/version.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace {

using namespace ductl;
using namespace ductl::commands;

constexpr const char* kDescription =
    "ductl: one large language model on one workstation and a flock of small PCs.\n"
    "\n"
    "First steps:\n"
    "  ductl validate          is the inventory file right?\n"
    "  ductl up                raise the flock: start the ducks, send them their weights, start the engine\n"
    "  ductl chat              talk to it\n"
    "  ductl run \"a prompt\"    one answer on stdout\n"
    "  ductl status            who is up, and what is missing\n"
    "  ductl down              stop all of it\n";

constexpr const char* kFooter =
    "The inventory file describes the flock. The first of these is used, and named on stderr:\n"
    "  -i FILE, $DUCTL_INVENTORY, ./flock.toml, ./inventory/local.toml, $XDG_CONFIG_HOME/ductl/flock.toml,\n"
    "  /etc/ductl/flock.toml\n"
    "`ductl VERB --help` shows the options and examples of a verb. Exit codes: 0 done, 1 failed, 2 changes pending,\n"
    "3 degraded, 4 not serving, 64 wrong usage or inventory, 130 interrupted, 143 terminated.";

// CLI11's own exit codes are 100 and more; a wrong command line is 64.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, CommandContext& context) {
  const bool help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
  const bool verb_known = app.remaining().empty(); // `ductl nosuch --help` has one left over
  if (help && verb_known) return app.exit(error);  // prints the help on stdout
  return static_cast<int>(context.report(explain_parse_error(app, error)));
}

// A verb's own help lists only its own options.
void point_to_global_options(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string own = verb->get_footer();
    verb->footer(own + (own.empty() ? "" : "\n") +
                 "Global options stand here too: -i FILE, -o table|wide|json|jsonl, --no-color, --yes (`ductl --help`).");
    point_to_global_options(*verb);
  }
}

// What could not be written was not done, whatever else went well. Of a pipe that was closed (`| head`) nobody need be told.
ExitCode written_whole(CommandContext& context, ExitCode code) {
  const int fault = context.out.fault();
  if (fault == 0 || (code != ExitCode::Ok && code != ExitCode::Failed)) return code;
  if (fault == EPIPE) return ExitCode::Failed;
  return context.report({ErrorCode::kOutput,
                         fmt::format("the output could not be written whole: {}", std::strerror(fault)),
                         "stdout",
                         "is there room where it goes to?",
                         {}});
}

// `ductl help up` is `ductl up --help`. A verb that is none stays alone, to be refused as such.
std::vector<std::string> with_help_as_option(std::vector<std::string> words, const CLI::App& app) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  const auto named = [&](const CLI::App* verb) { return verb->get_name() == words.front(); };
  if (words.empty() || !app.get_subcommands(named).empty()) words.emplace_back("--help");
  return words;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a reader that went away is seen by the write
  CLI::App app{kDescription, "ductl"};
  app.require_subcommand(1);
  app.fallthrough(); // inherited by the verbs: global options may stand after them
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", std::string("ductl ") + kVersion);

  GlobalOptions options;
  CommandContext context;
  add_global_options(app, options);
  add_all_commands(app, context);
  app.footer(kFooter); // after the verbs, which would inherit it
  point_to_global_options(app);
  try {
    std::vector<std::string> words = with_help_as_option({argv + 1, argv + argc}, app);
    std::reverse(words.begin(), words.end()); // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    // The options before the fault hold for its report, but a wrong -o is no format.
    if (options.output != "json" && options.output != "jsonl") options.output = "table";
    apply_global_options(options, context);
    return report_parse_error(app, error, context);
  }
  apply_global_options(options, context);
  return static_cast<int>(written_whole(context, context.run()));
}
