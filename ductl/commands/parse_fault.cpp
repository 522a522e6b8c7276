#include "ductl/commands/parse_fault.hpp"

#include "inventory/spelling.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ductl::commands {
namespace {

const CLI::App& deepest_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  for (std::vector<CLI::App*> below = verb->get_subcommands(); !below.empty(); below = verb->get_subcommands())
    verb = below.front();
  return *verb;
}

// "ductl", "ductl model show".
std::string name_of(const CLI::App& verb) {
  return verb.get_parent() == nullptr ? verb.get_name() : name_of(*verb.get_parent()) + " " + verb.get_name();
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(verb->get_name());
  return names;
}

// Of the verb and of those above it, whose options may stand after it as well.
std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool takes_a_prompt(const CLI::App& verb) { return verb.get_name() == "run"; }

std::string help_of(const std::string& name) { return fmt::format("`{} --help` shows what there is", name); }

std::string suggestion(const std::string& wrong, const std::vector<std::string>& known, const std::string& name) {
  const std::string near = inventory::nearest_word(wrong, known);
  return near.empty() ? help_of(name) : fmt::format("did you mean {}? {}", near, help_of(name));
}

} // namespace

Error explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& verb = deepest_verb(app);
  const std::string name = name_of(verb);
  const auto usage = [&](std::string message, std::string next) {
    return Error{ErrorCode::kUsage, std::move(message), "the command line", std::move(next), {}};
  };
  // A verb that is not known leaves its name over, and then "a subcommand is required"; so the words left over come first.
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return usage(error.what(), help_of(name));
  const std::string word = left.front().substr(0, left.front().find('='));
  if (word.size() > 1 && word.front() == '-') {
    Error fault = usage(fmt::format("{} is no option of `{}`", word, name), suggestion(word, options_of(verb), name));
    if (takes_a_prompt(verb))
      fault.next += fmt::format("; a prompt that begins with - stands after --: {} -- \"{}\"", name, word);
    return fault;
  }
  const std::vector<std::string> verbs = verbs_of(verb);
  if (!verbs.empty()) return usage(fmt::format("{} is no verb of `{}`", word, name), suggestion(word, verbs, name));
  if (verb.get_name() == "run")
    return usage(fmt::format("\"{}\" is one word too many: the prompt is a single argument", left.front()),
                 "put the prompt in quotes: ductl run \"What is ...?\"");
  return usage(fmt::format("\"{}\" is one word too many for `{}`", left.front(), name), help_of(name));
}

} // namespace ductl::commands
