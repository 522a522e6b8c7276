// `ductl version`.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_version(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
