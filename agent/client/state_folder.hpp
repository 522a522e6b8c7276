// The state folder of a flock: $XDG_STATE_HOME/ductl/<flock> (default ~/.local/state). What lies where, in one place.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <string>

namespace ductl::agent {

struct StateFolder {
  std::filesystem::path root; // 0700
  [[nodiscard]] std::filesystem::path key() const { return root / "key"; }
  [[nodiscard]] std::filesystem::path api_keys() const { return root / "api-keys"; }
  [[nodiscard]] std::filesystem::path lock() const { return root / "lock"; }
  [[nodiscard]] std::filesystem::path serving() const { return root / "serving.json"; }
  [[nodiscard]] std::filesystem::path placement() const { return root / "placement.json"; }
  [[nodiscard]] std::filesystem::path log(const std::string& process) const { return root / "log" / (process + ".log"); }
  [[nodiscard]] std::filesystem::path run(const std::string& process) const { return root / "run" / (process + ".json"); }
};

[[nodiscard]] StateFolder state_folder(const std::string& flock); // by environment; makes nothing
[[nodiscard]] std::filesystem::path cache_folder();               // $XDG_CACHE_HOME/ductl
// kState when it is there, or could be, but cannot be looked into: what runs would go unseen. A folder that is not there is fine.
[[nodiscard]] Expected<void> check_state_folder(const StateFolder& folder);
[[nodiscard]] Expected<void> make_state_folder(const StateFolder& folder); // root, log, run; mode 0700

} // namespace ductl::agent
