#include "ductl/commands/command.hpp"

#include "ductl/view/error_view.hpp"
#include "ductl/view/format.hpp"
#include "ductl/view/style.hpp"
#include "inventory/error_json.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool file_exists(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored);
}

// For a shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:@%,=";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

} // namespace

ExitCode exit_code(ErrorCode code) {
  switch (code) {
  case ErrorCode::kInventoryFile:
  case ErrorCode::kInventoryValue:
  case ErrorCode::kInventoryDuplicate:
  case ErrorCode::kChatFormat:
  case ErrorCode::kUsage:
  case ErrorCode::kNotConfirmed: return ExitCode::Usage;
  case ErrorCode::kCancelled: return ExitCode::Interrupted;
  default: return ExitCode::Failed;
  }
}

ExitCode CommandContext::run() { return action_ ? action_() : ExitCode::Usage; }

Expected<InventoryChoice> CommandContext::inventory_choice() const {
  return choose_inventory(inventory_option, environment, file_exists);
}

std::string CommandContext::command_text(std::string_view verb) const {
  return inventory_option.empty() ? fmt::format("ductl {}", verb) : fmt::format("ductl -i {} {}", quoted(inventory_option), verb);
}

std::string CommandContext::with_inventory(std::string text) const {
  constexpr std::string_view kCommand = "`ductl ";
  const std::string replacement = "`" + command_text("");
  for (std::size_t at = text.find(kCommand); at != std::string::npos; at = text.find(kCommand, at + replacement.size())) {
    if (text.compare(at + kCommand.size(), 1, "-") != 0)
      text.replace(at, kCommand.size(), replacement); // `ductl --help` needs none
  }
  return text;
}

Error CommandContext::with_inventory(Error error) const {
  error.next = with_inventory(std::move(error.next));
  return error;
}

const inventory::Flock* CommandContext::flock() {
  if (flock_) return &*flock_;
  const auto choice = inventory_choice();
  if (!choice) {
    report(choice.error());
    return nullptr;
  }
  say(fmt::format("inventory: {} ({})", choice->file.string(), choice->rule));
  auto loaded = inventory::load_inventory(choice->file);
  if (!loaded) {
    report(loaded.error());
    return nullptr;
  }
  flock_ = std::move(*loaded);
  return &*flock_;
}

ExitCode CommandContext::report(const Error& plain) {
  const Error error = with_inventory(plain);
  err.write(view::error_text(error, err.colour));
  if (wants_json()) write_json(errors_document({&error, 1}));
  return exit_code(error.code);
}

ExitCode CommandContext::report(const inventory::Faults& faults) {
  for (const Error& error : faults.errors) err.write(view::error_text(error, err.colour) + "\n");
  say(view::plural(faults.errors.size(), "fault") + " found");
  if (wants_json()) write_json(errors_document(faults.errors));
  return ExitCode::Usage;
}

void CommandContext::write_json(const nlohmann::ordered_json& document) const {
  // Text from files and peers may not be UTF-8; a document is written all the same.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  out.write(document.dump(format == OutputFormat::Jsonl ? -1 : 2, ' ', false, replace) + "\n");
}

void CommandContext::say(std::string_view line) const { err.write(view::paint(line, view::Style::Dim, err.colour) + "\n"); }

Expected<void> CommandContext::confirm(const std::string& what) {
  if (yes) return {};
  if (!input_is_terminal || !err.is_terminal)
    return fail(ErrorCode::kNotConfirmed, fmt::format("not confirmed: {}", what), {}, "without a terminal to ask on, add --yes");
  err.write(fmt::format("{}? [y/N] ", what));
  std::string answer;
  if (!std::getline(std::cin, answer)) err.write("\n");
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return fail(ErrorCode::kNotConfirmed, fmt::format("not confirmed: {}", what), {}, "answer y, or add --yes");
}

} // namespace ductl::commands
