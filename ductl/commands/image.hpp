// `ductl image`: the image that ducks boot, where it does not come over the network.
#pragma once

namespace CLI {
class App;
}

namespace ductl::commands {
class CommandContext;

void add_image(CLI::App& app, CommandContext& context);

} // namespace ductl::commands
