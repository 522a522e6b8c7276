// `ductl down`: stop the engine and every duck of the flock; says what it will stop.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_down(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
