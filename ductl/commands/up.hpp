// `ductl up`: raise the flock until it serves; says what it does, and does nothing when nothing is left to do.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_up(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
