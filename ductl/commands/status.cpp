#include "ductl/commands/status.hpp"

#include "ductl/commands/command.hpp"
#include "ductl/commands/engine_client.hpp"
#include "ductl/reconcile/diagnosis.hpp"
#include "ductl/reconcile/local_flock.hpp"
#include "ductl/view/format.hpp"
#include "ductl/view/table.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ductl::commands {
namespace {

using nlohmann::ordered_json;
using reconcile::Diagnosis;
using reconcile::DuckDiagnosis;
using reconcile::ObservedDuck;
using reconcile::Stage;

constexpr std::size_t kImageIdShown = 12;

struct Seen {
  reconcile::Desired desired;
  reconcile::Observed observed;
  Diagnosis diagnosis;
  std::string api; // "http://127.0.0.1:7411"; "" = no engine
};

// Written whole under a name of its own and renamed; two commands at once are harmless, the last one wins.
void keep_history(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = fmt::format("{}.{}.part", file.string(), ::getpid());
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code ignored; // without it the next `since` is younger, nothing else
  if (out) std::filesystem::rename(part, file, ignored);
  std::filesystem::remove(part, ignored); // there only when it could not be written or renamed
}

Seen look(const inventory::Flock& inventory) {
  reconcile::LocalFlock flock(inventory, agent::state_folder(inventory.name));
  flock.ask_for_stats(true);
  Seen seen;
  seen.desired = reconcile::remembered_state(inventory, flock.state(), reconcile::Goal::Serving);
  seen.observed = flock.hands().observe(seen.desired);
  seen.diagnosis = reconcile::diagnose(seen.desired, seen.observed, flock.serving_ducks());
  const std::filesystem::path file = flock.state().root / "stages.json";
  std::ifstream in(file, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto history = reconcile::note_stages(seen.diagnosis, reconcile::parse_history(before), std::chrono::system_clock::now());
  std::error_code error;
  if (std::filesystem::exists(flock.state().root, error)) keep_history(file, reconcile::history_text(history));
  if (seen.observed.engine.running && seen.observed.engine.api_port != 0) {
    seen.api = api_url(inventory.engine.api_address, seen.observed.engine.api_port);
  }
  return seen;
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json() : ordered_json(text); }

ordered_json health_json(const agent::Health& health) {
  ordered_json checks = ordered_json::array();
  for (const agent::HealthCheck& check : health.checks) {
    checks.push_back({{"name", check.name},
                      {"state", agent::to_string(check.state)},
                      {"value", text_or_null(check.value)},
                      {"expected", text_or_null(check.expected)},
                      {"figure", check.figure ? ordered_json(*check.figure) : ordered_json()},
                      {"since_s", check.since_s},
                      {"advice", text_or_null(check.advice)}});
  }
  return {{"state", agent::to_string(agent::worst(health))}, {"checks", checks}};
}

ordered_json duck_json(const inventory::Duck& inventory, std::uint64_t slices_wanted, const ObservedDuck& duck,
                       const DuckDiagnosis& diagnosis, const std::string& log) {
  ordered_json json = {{"name", duck.name},
                       {"stage", reconcile::to_string(diagnosis.stage)},
                       {"since", diagnosis.since ? ordered_json(view::timestamp_text(*diagnosis.since)) : ordered_json()},
                       {"reason", text_or_null(diagnosis.reason)},
                       {"next", text_or_null(diagnosis.next)},
                       {"log", log},
                       {"slices_held", duck.hello ? duck.hello->slices_held : 0},
                       {"slices_wanted", slices_wanted},
                       {"address", inventory::to_string(inventory.address)},
                       {"control_port", duck.control_port}};
  if (duck.hello) {
    json["data_port"] = duck.hello->data_port;
    json["pid"] = duck.hello->pid;
    json["version"] = duck.hello->version;
    json["kernels"] = duck.hello->kernels;
    json["threads"] = duck.hello->threads;
    json["cores"] = duck.hello->cores;
    json["format"] = text_or_null(duck.hello->format);
    json["epoch"] = duck.hello->epoch;
    json["slice_bytes"] = duck.hello->slice_bytes;
    json["memory_bytes"] = duck.hello->memory_bytes;
    json["memory_available_bytes"] = duck.hello->memory_available_bytes;
    json["uptime_ms"] = duck.hello->uptime_ms;
  }
  if (duck.hello && !duck.hello->mac.empty()) {
    json["mac"] = duck.hello->mac;
    json["image"] = duck.hello->image;
    json["adopted"] = duck.hello->adopted;
  }
  if (duck.health) json["health"] = health_json(*duck.health);
  if (duck.boot) json["boot_step"] = boot::to_string(duck.boot->step);
  if (duck.stats) {
    json["rounds"] = duck.stats->rounds;
    json["compute_ns"] = duck.stats->compute_ns;
    json["frames"] = {{"in", duck.stats->frames_in},
                      {"out", duck.stats->frames_out},
                      {"dropped", duck.stats->frames_dropped},
                      {"corrupt", duck.stats->frames_corrupt},
                      {"foreign", duck.stats->frames_foreign}};
    json["nacks_sent"] = duck.stats->nacks_sent;
    json["nacks_received"] = duck.stats->nacks_received;
  }
  return json;
}

// As the engine was started, whatever the inventory says by now.
bool has_compact_replies(const inventory::Flock& inventory) {
  const auto serving = agent::load_serving(agent::state_folder(inventory.name).serving());
  return (serving ? serving->engine.reply : inventory.engine.reply) == inventory::ReplyType::Compact;
}

ordered_json status_json(const inventory::Flock& inventory, const Seen& seen) {
  ordered_json ducks = ordered_json::array();
  for (std::size_t i = 0; i < inventory.ducks.size(); ++i) {
    ducks.push_back(duck_json(inventory.ducks[i], seen.desired.ducks[i].slices, seen.observed.ducks[i], seen.diagnosis.ducks[i],
                              agent::state_folder(inventory.name).log(inventory.ducks[i].name).string()));
  }
  ordered_json leavers = ordered_json::array();
  for (const reconcile::ObservedLeaver& leaver : seen.observed.leavers)
    leavers.push_back({{"name", leaver.name}, {"pid", leaver.pid}});
  const reconcile::ObservedEngine& engine = seen.observed.engine;
  return {{"schema", "ductl/status/v1"},
          {"serving", seen.diagnosis.serving},
          {"ducks", ducks},
          {"flock", inventory.name},
          {"image_wanted", text_or_null(seen.desired.image)},
          {"degraded", seen.diagnosis.degraded},
          {"reason", text_or_null(seen.diagnosis.reason)},
          {"next", text_or_null(seen.diagnosis.next)},
          {"engine",
           {{"running", engine.running},
            {"healthy", engine.healthy},
            {"pid", engine.running ? ordered_json(engine.pid) : ordered_json()},
            {"api", text_or_null(seen.api)},
            {"replies", has_compact_replies(inventory) ? "compact" : "exact"}}},
          {"not_in_inventory", leavers}};
}

view::Style style_of(Stage stage) {
  if (stage == Stage::Serving) return view::Style::Green;
  return stage == Stage::Off ? view::Style::Red : view::Style::Yellow;
}

std::string slices_text(std::uint64_t held, std::uint64_t wanted) {
  return wanted == 0 ? view::count_text(held) : fmt::format("{}/{}", view::count_text(held), view::count_text(wanted));
}

view::Cell health_cell(const std::optional<agent::Health>& health) {
  if (!health) return "-";
  const agent::HealthState state = agent::worst(*health);
  const view::Style style = state == agent::HealthState::Fail   ? view::Style::Red
                            : state == agent::HealthState::Warn ? view::Style::Yellow
                                                                : view::Style::Plain;
  return {agent::to_string(state), style};
}

std::string status_table(const CommandContext& context, const inventory::Flock& inventory, const Seen& seen) {
  view::Table table({{"NAME"},
                     {"STAGE"},
                     {"SINCE"},
                     {.title = "SLICES", .right = true},
                     {.title = "BYTES", .right = true},
                     {.title = "ROUNDS", .right = true},
                     {.title = "ADDRESS", .wide_only = true},
                     {.title = "PID", .right = true, .wide_only = true},
                     {.title = "VERSION", .wide_only = true},
                     {.title = "KERNELS", .wide_only = true},
                     {.title = "THREADS", .right = true, .wide_only = true},
                     {.title = "FORMAT", .wide_only = true},
                     {.title = "EPOCH", .right = true, .wide_only = true},
                     {.title = "IMAGE", .wide_only = true},
                     {.title = "HEALTH", .wide_only = true},
                     {"REASON"},
                     {.title = "NEXT", .wide_only = true}});
  for (std::size_t i = 0; i < inventory.ducks.size(); ++i) {
    const ObservedDuck& duck = seen.observed.ducks[i];
    const DuckDiagnosis& diagnosis = seen.diagnosis.ducks[i];
    const std::optional<agent::Hello>& hello = duck.hello;
    table.add({duck.name,
               {std::string(reconcile::to_string(diagnosis.stage)), style_of(diagnosis.stage)},
               diagnosis.since ? view::timestamp_text(*diagnosis.since) : "-",
               slices_text(hello ? hello->slices_held : 0, seen.desired.ducks[i].slices),
               hello ? view::bytes_text(hello->slice_bytes) : "-",
               duck.stats ? view::count_text(duck.stats->rounds) : "-",
               fmt::format("{}:{}", inventory::to_string(inventory.ducks[i].address), duck.control_port),
               hello ? std::to_string(hello->pid) : "-",
               hello ? hello->version : "-",
               hello ? hello->kernels : "-",
               hello ? std::to_string(hello->threads) : "-",
               hello && !hello->format.empty() ? hello->format : "-",
               hello ? std::to_string(hello->epoch) : "-",
               hello && !hello->image.empty() ? hello->image.substr(0, kImageIdShown) : "-",
               health_cell(duck.health),
               diagnosis.reason,
               diagnosis.next});
  }
  std::string text = table.text(context.wide(), context.out.colour);
  const Diagnosis& diagnosis = seen.diagnosis;
  if (diagnosis.serving) {
    const auto serving = std::count_if(diagnosis.ducks.begin(), diagnosis.ducks.end(),
                                       [](const DuckDiagnosis& duck) { return duck.stage == Stage::Serving; });
    const bool compact = has_compact_replies(inventory);
    text += fmt::format("Serving at {}, {}/{} ducks{}{}.\n", seen.api, serving, diagnosis.ducks.size(),
                        diagnosis.degraded ? " (degraded)" : "", compact ? ", compact replies (15 bits)" : "");
  } else {
    text += fmt::format("Not serving: {}. Next: {}.\n", view::printable(diagnosis.reason), diagnosis.next);
  }
  for (const ObservedDuck& duck : seen.observed.ducks) {
    if (duck.power.died)
      text += fmt::format("Duck {} has ended by itself; its log: {}\n", duck.name,
                          agent::state_folder(inventory.name).log(duck.name).string());
  }
  for (const reconcile::ObservedLeaver& leaver : seen.observed.leavers)
    text += fmt::format("Duck {} runs (process {}) and is not in the inventory: {} stops it.\n", leaver.name, leaver.pid,
                        context.with_inventory("`ductl up`"));
  return text;
}

ExitCode run_status(CommandContext& context) {
  const inventory::Flock* inventory = context.flock();
  if (inventory == nullptr) return ExitCode::Usage;
  if (const auto ok = agent::check_state_folder(agent::state_folder(inventory->name)); !ok) return context.report(ok.error());
  Seen seen = look(*inventory);
  seen.diagnosis.next = context.with_inventory(std::move(seen.diagnosis.next));
  for (DuckDiagnosis& duck : seen.diagnosis.ducks) duck.next = context.with_inventory(std::move(duck.next));
  if (context.wants_json()) {
    context.write_json(status_json(*inventory, seen));
  } else {
    context.out.write(status_table(context, *inventory, seen));
  }
  if (!seen.diagnosis.serving) return ExitCode::NotServing;
  return seen.diagnosis.degraded ? ExitCode::Degraded : ExitCode::Ok;
}

} // namespace

void add_status(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("status", "Show how far each duck came, and why no further");
  verb->footer("Stages: off, waking, dhcp, loader, image, agent, healthy, filling, ready, serving; dhcp, loader and image are "
               "those of machines\n"
               "that boot over the network. SINCE is when ductl first saw the duck in its stage.\n"
               "Exit code 0 serving, 3 serving though not every duck of the inventory does, 4 not serving.\n"
               "Examples:\n  ductl status -o wide\n  ductl status -o json | jq .serving");
  verb->callback([&context] { context.choose([&context] { return run_status(context); }); });
}

} // namespace ductl::commands
