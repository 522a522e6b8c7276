#include "ductl/commands/command.hpp"

#include <fmt/format.h>

namespace ductl::commands {
namespace {

std::string places_text() {
  return "give one with -i FILE or $DUCTL_INVENTORY, or put it at ./flock.toml, ./inventory/local.toml, "
         "$XDG_CONFIG_HOME/ductl/flock.toml or /etc/ductl/flock.toml (docs/inventory.md says what stands in it)";
}

std::optional<std::filesystem::path> config_folder(const std::function<std::optional<std::string>(const char*)>& get_env) {
  const auto config = get_env("XDG_CONFIG_HOME");
  // The XDG rules ignore relative paths.
  if (config && !config->empty() && config->front() == '/') return *config;
  const auto home = get_env("HOME");
  if (home && !home->empty()) return std::filesystem::path(*home) / ".config";
  return std::nullopt;
}

} // namespace

Expected<InventoryChoice> choose_inventory(const std::string& option,
                                           const std::function<std::optional<std::string>(const char*)>& get_env,
                                           const std::function<bool(const std::filesystem::path&)>& exists) {
  // What a person named is taken as it is: when the file is absent, loading it says so.
  if (!option.empty()) return InventoryChoice{option, "-i"};
  if (const auto named = get_env("DUCTL_INVENTORY"); named && !named->empty()) return InventoryChoice{*named, "$DUCTL_INVENTORY"};

  std::vector<InventoryChoice> places{{"flock.toml", "found in this folder"},
                                      {"inventory/local.toml", "the local flock of this folder"}};
  if (const auto config = config_folder(get_env))
    places.push_back({*config / "ductl/flock.toml", "found in the configuration folder"});
  places.push_back({"/etc/ductl/flock.toml", "found in /etc/ductl"});
  for (InventoryChoice& place : places)
    if (exists(place.file)) return std::move(place);
  return fail(ErrorCode::kInventoryFile, "there is no inventory file in any of the usual places", {}, places_text());
}

} // namespace ductl::commands
