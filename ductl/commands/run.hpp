// `ductl run "prompt"`: one answer on stdout.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_run(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
