// What every command of `ductl` shares: the global options as parsed, the two output streams, the inventory, the exit code.
//
// A command is one file pair in this folder and one free function, declared in its header and listed in all_commands.cpp:
//
//   void add_up(CLI::App& app, CommandContext& context);
//
// It adds its verb and options to `app`; the verb's CLI11 callback only says what to run once everything is parsed:
//
//   auto options = std::make_shared<UpOptions>();
//   CLI::App* verb = app.add_subcommand("up", "Raise the flock");
//   verb->add_flag("--dry-run", options->dry_run, "...");
//   verb->callback([&context, options] { context.choose([&context, options] { return run_up(context, *options); }); });
//
// CLI11's headers are heavy: include them in .cpp files only. Data goes to `out`, everything else to `err`.
// All of this belongs to the main thread, except that `out` and `err` may be written from one other thread at a time.
#pragma once

#include "inventory/inventory.hpp"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace ductl::commands {

enum class ExitCode : int { // docs/operations.md; scripts depend on them
  Ok = 0,                   // done, healthy, nothing to change
  Failed = 1,
  ChangesPending = 2, // plan --detailed-exitcode
  Degraded = 3,       // status: serving, but with ducks missing
  NotServing = 4,     // status
  Usage = 64,         // a wrong command line or inventory
  Interrupted = 130,
  Terminated = 143,
};

// Of an error that ends a command: 64 for usage and inventory, 130 for kCancelled, otherwise 1.
[[nodiscard]] ExitCode exit_code(ErrorCode code);

enum class OutputFormat { Table, Wide, Json, Jsonl };

struct Stream {
  std::function<void(std::string_view)> write;   // drops what cannot be written
  std::function<int()> fault = [] { return 0; }; // errno of the first write that failed; EPIPE: nobody reads any more
  bool is_terminal = false;
  bool colour = false; // decided for this stream alone: TTY, NO_COLOR, TERM=dumb, --no-color
  int columns = 80;    // of the terminal; 80 off a terminal
};

// Which file the inventory comes from, and the rule that chose it: -i, $DUCTL_INVENTORY, then the well-known places.
struct InventoryChoice {
  std::filesystem::path file;
  std::string rule; // "-i", "$DUCTL_INVENTORY", "the working folder", ...
};
// `getenv` and `exists` are parameters so that the order can be tested. No file anywhere is an error that lists the places.
[[nodiscard]] Expected<InventoryChoice> choose_inventory(const std::string& option,
                                                         const std::function<std::optional<std::string>(const char*)>& get_env,
                                                         const std::function<bool(const std::filesystem::path&)>& exists);

class CommandContext {
public:
  // Set by the global options before any command runs.
  std::string inventory_option; // -i; empty = not given
  OutputFormat format = OutputFormat::Table;
  bool yes = false;
  Stream out, err;
  bool input_is_terminal = false;

  [[nodiscard]] bool wants_json() const { return format == OutputFormat::Json || format == OutputFormat::Jsonl; }
  [[nodiscard]] bool wide() const { return format == OutputFormat::Wide; }

  // Called by a verb's callback: what to run after parsing.
  void choose(std::function<ExitCode()> action) { action_ = std::move(action); }
  [[nodiscard]] ExitCode run(); // the chosen action; 64 when there is none

  // How a verb's command line begins for the inventory in use: "ductl chat", "ductl -i home.toml chat".
  [[nodiscard]] std::string command_text(std::string_view verb) const;
  // The error with the same done to every `ductl ...` that its next step names.
  [[nodiscard]] Error with_inventory(Error error) const;
  [[nodiscard]] std::string with_inventory(std::string text) const;

  // The inventory, loaded at the first call and named on stderr then. Null when there is none or it is faulty: all of it has been
  // reported by then, and the command returns ExitCode::Usage.
  [[nodiscard]] const inventory::Flock* flock();
  [[nodiscard]] Expected<InventoryChoice> inventory_choice() const;

  // Prints an error for a person on stderr (and, with -o json, as ductl/error/v1 on stdout). Returns exit_code().
  ExitCode report(const Error& error);
  ExitCode report(const inventory::Faults& faults);

  // One JSON document on stdout: indented with -o json, one line with -o jsonl.
  void write_json(const nlohmann::ordered_json& document) const;
  // A line on stderr for a person; dimmed on a terminal.
  void say(std::string_view line) const;

  // Asks on a terminal (default no); without one, --yes is needed. kNotConfirmed otherwise. `what` ends without "?".
  [[nodiscard]] Expected<void> confirm(const std::string& what);

private:
  std::function<ExitCode()> action_;
  std::optional<inventory::Flock> flock_;
};

} // namespace ductl::commands
