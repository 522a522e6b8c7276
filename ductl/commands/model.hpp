// `ductl model ...`: look into a model: its sizes, its tokens, its logits, its perplexity; with or without a flock.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_model(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
