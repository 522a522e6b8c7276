#include "ductl/commands/validate.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/view/error_view.hpp"
#include "ductl/view/format.hpp"
#include "ductl/view/style.hpp"
#include "inventory/error_json.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

using nlohmann::ordered_json;

ordered_json document(const std::string& file, bool valid, std::span<const Error> errors, std::span<const Error> notes) {
  ordered_json out{{"schema", "ductl/validate/v1"}, {"file", file}, {"valid", valid}};
  for (const auto& [key, list] : {std::pair{"errors", errors}, std::pair{"notes", notes}}) {
    out[key] = ordered_json::array();
    for (const Error& error : list) out[key].push_back(error_json(error));
  }
  return out;
}

ExitCode run_validate(CommandContext& context, const std::string& file_option) {
  std::filesystem::path file = file_option;
  if (file.empty()) {
    const auto choice = context.inventory_choice();
    if (!choice) return context.report(choice.error());
    context.say(fmt::format("inventory: {} ({})", choice->file.string(), choice->rule));
    file = choice->file;
  }
  const auto flock = inventory::load_inventory(file);
  if (!flock) {
    const std::vector<Error>& errors = flock.error().errors;
    for (const Error& error : errors) context.err.write(view::error_text(error, context.err.colour) + "\n");
    context.say(fmt::format("{}: {}", file.string(), view::plural(errors.size(), "fault")));
    if (context.wants_json()) context.write_json(document(file.string(), false, errors, {}));
    return ExitCode::Usage;
  }
  const std::vector<Error> notes = inventory::settings_not_carried_out(*flock);
  if (context.wants_json()) {
    context.write_json(document(file.string(), true, {}, notes));
    return ExitCode::Ok;
  }
  context.out.write(fmt::format("{}: flock \"{}\", {} on {}: no faults\n", file.string(), flock->name,
                                view::plural(flock->ducks.size(), "duck"), view::plural(flock->ports.size(), "port")));
  for (const Error& note : notes)
    context.err.write(fmt::format("{}: {}, and `ductl up` refuses it; {}\n",
                                  view::paint("note", view::Style::Yellow, context.err.colour), note.message, note.next));
  return ExitCode::Ok;
}

} // namespace

void add_validate(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("validate", "Check an inventory file; all faults in one pass");
  auto file = std::make_shared<std::string>();
  verb->add_option("FILE", *file, "The file (default: the inventory that would be used)");
  verb->footer("Examples:\n  ductl validate flock.toml\n  ductl validate -o json flock.toml | jq .errors\n"
               "Exit code 0 when the file has no faults, 64 otherwise.");
  verb->callback([&context, file] { context.choose([&context, file] { return run_validate(context, *file); }); });
}

} // namespace ductl::commands
