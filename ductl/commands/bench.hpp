// `ductl bench`: what this machine's kernels reach. duck-agent measures.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_bench(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
