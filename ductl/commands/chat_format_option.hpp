// --chat-format, which `up` and `plan` share: the form of conversations for this time, whatever the inventory says.
#pragma once

#include "inventory/inventory.hpp"

#include <string>

namespace CLI {
class App;
}

namespace ductl::commands {

// `name` must live as long as `verb`; it stays empty without the option. The engine knows the names, and refuses any other.
void add_chat_format_option(CLI::App& verb, std::string& name);

// The flock as its inventory has it, with model.chat_format replaced where a name was given.
[[nodiscard]] inventory::Flock with_chat_format(inventory::Flock flock, const std::string& name);

} // namespace ductl::commands
