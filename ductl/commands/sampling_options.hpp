// The options that `run` and `chat` share.
#pragma once

#include "ductl/commands/chat_api.hpp"

namespace CLI {
class App;
}

namespace ductl::commands {

struct AskOptions {
  ChatSampling sampling;
  std::string system;
};

// `options` must live as long as `verb`.
void add_ask_options(CLI::App& verb, AskOptions& options);

} // namespace ductl::commands
