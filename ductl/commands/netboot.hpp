// `ductl netboot`: serves the boots of a flock's ducks, in the foreground.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_netboot(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
