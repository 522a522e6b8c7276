// `ductl chat`: talk to the flock, with line editing and history.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_chat(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
