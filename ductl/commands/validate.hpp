// `ductl validate [FILE]`: all faults of an inventory file in one pass.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_validate(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
