// The table of verbs, in the order of --help.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_all_commands(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
