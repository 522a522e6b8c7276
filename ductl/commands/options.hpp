// The options that stand before or after any verb, and what the terminal is like.
#pragma once

#include "ductl/commands/command.hpp"

#include <string>

namespace ductl::commands {

struct GlobalOptions {
  std::string inventory;
  std::string output = "table";
  bool no_color = false;
  bool yes = false;
};

void add_global_options(CLI::App& app, GlobalOptions& options);

// Facts of one stream, as the environment and the kernel have them.
struct StreamFacts {
  bool is_terminal = false;
  bool no_color_variable = false; // NO_COLOR set and not empty
  bool dumb_terminal = false;     // TERM=dumb
};
[[nodiscard]] bool use_colour(const StreamFacts& facts, bool no_color_option);

// Fills the context: format, --yes, and the two streams (file descriptors 1 and 2).
void apply_global_options(const GlobalOptions& options, CommandContext& context);

} // namespace ductl::commands
