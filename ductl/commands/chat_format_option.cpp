#include "ductl/commands/chat_format_option.hpp"

#include <CLI/CLI.hpp>

namespace ductl::commands {

void add_chat_format_option(CLI::App& verb, std::string& name) {
  verb.add_option("--chat-format", name, "The form of conversations, instead of the inventory's model.chat_format")
      ->type_name("NAME")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("the name is empty; leave the option out to have the inventory's") : std::string();
      });
}

inventory::Flock with_chat_format(inventory::Flock flock, const std::string& name) {
  if (!name.empty()) flock.model.chat_format = name;
  return flock;
}

} // namespace ductl::commands
