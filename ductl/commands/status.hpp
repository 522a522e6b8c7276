// `ductl status`: how far each duck came, and why no further. Exit code 0 serving, 3 degraded, 4 not serving.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_status(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
