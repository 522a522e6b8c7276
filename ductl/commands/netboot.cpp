#include "ductl/commands/netboot.hpp"

#include "ductl/boot/boot_desk.hpp"
#include "ductl/commands/command.hpp"
#include "ductl/commands/interrupt.hpp"
#include "ductl/view/format.hpp"
#include "ductl/view/style.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200}; // for an interruption
constexpr std::size_t kIdShown = 12;

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

void show(const CommandContext& context, const boot::BootNews& news) {
  if (context.wants_json()) {
    const nlohmann::ordered_json line = {{"schema", "ductl/netboot/v1"},
                                         {"time", view::timestamp_text(news.when)},
                                         {"kind", news.kind},
                                         {"duck", or_null(news.duck)},
                                         {"port", or_null(news.port)},
                                         {"mac", or_null(news.mac)},
                                         {"file", or_null(news.file)},
                                         {"text", news.text}};
    context.out.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return;
  }
  context.out.write(fmt::format("{}  {:<10} {:<14} {}\n", view::clock_text(news.when), news.duck.empty() ? news.port : news.duck,
                                news.kind, view::printable(news.text)));
}

std::string served_text(const inventory::Flock& flock, const boot::DuckImage& image) {
  std::vector<std::string> ports;
  for (const inventory::Port& port : flock.ports)
    ports.push_back(fmt::format("{} ({}, {})", port.name, port.interface, inventory::to_string(port.address)));
  return fmt::format("serving image {} (kernel {}) to {} on {}; {}; Ctrl-C ends it", image.manifest.image.substr(0, kIdShown),
                     image.manifest.kernel_release, view::plural(flock.ducks.size(), "duck"), fmt::join(ports, ", "),
                     flock.netboot.proxy_dhcp ? "another DHCP server gives out addresses" : "addresses are given out here");
}

ExitCode run_netboot(CommandContext& context) {
  const inventory::Flock* flock = context.flock();
  if (flock == nullptr) return ExitCode::Usage;
  if (!flock->netboot.enabled)
    return context.report({ErrorCode::kUsage,
                           "this flock's ducks are not booted over the network",
                           flock->file.string(),
                           "set netboot.enabled = true (and power.driver) in the inventory: docs/inventory.md",
                           {}});
  const agent::StateFolder state = agent::state_folder(flock->name);
  if (const auto made = agent::make_state_folder(state); !made) return context.report(made.error());
  const auto image = boot::find_duck_image(*flock);
  if (!image) return context.report(image.error());
  const InterruptWatch interrupts;
  const auto desk = boot::BootDesk::serve(*flock, state, &*image, [&](const boot::BootNews& news) { show(context, news); });
  if (!desk) return context.report(desk.error());
  context.say(served_text(*flock, *image));
  while (InterruptWatch::signal() == 0) {
    if (const auto fault = (*desk)->fault()) return context.report(*fault);
    (*desk)->wait(kLookAgain);
  }
  return ExitCode::Ok; // it serves until it is told to end
}

} // namespace

void add_netboot(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("netboot", "Serve the boots of the flock's ducks, until Ctrl-C");
  verb->footer(
      "DHCP, TFTP and HTTP on every port of the inventory, for the MACs of the inventory and nobody else, and a line for each\n"
      "thing seen (-o json or jsonl: a JSON object a line). `ductl up` serves by itself while ducks boot; this one stays, for\n"
      "ducks that are switched on by hand or restart later. Needs root, or CAP_NET_BIND_SERVICE and CAP_NET_RAW, and the image:\n"
      "`ninja -C build duck-image`. docs/boot.md.\n"
      "Examples:\n  ductl netboot\n  ductl -i flock.toml netboot -o jsonl | jq -r .text");
  verb->callback([&context] { context.choose([&context] { return run_netboot(context); }); });
}

} // namespace ductl::commands
