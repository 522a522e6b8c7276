// `ductl plan`: what `ductl up` would do, and why.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_plan(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
