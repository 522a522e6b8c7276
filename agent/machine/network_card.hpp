// The machine's Ethernet cards, as sysfs shows them.
#pragma once

#include "agent/machine/machine_files.hpp"
#include "inventory/inventory.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ductl::agent {

struct NetworkCard {
  std::string interface; // "eth0"
  inventory::Mac mac{};
  bool operator==(const NetworkCard&) const = default;
};

// Real cards only (those of a device), by name.
[[nodiscard]] std::vector<NetworkCard> network_cards(const MachineFiles& files);

// The card with this MAC; without one, the only card there is. Nothing where that is not clear yet.
[[nodiscard]] std::optional<NetworkCard> choose_card(const std::vector<NetworkCard>& cards,
                                                     const std::optional<inventory::Mac>& boot_mac);

struct LinkState {
  bool carrier = false;
  int mbps = 0;       // 0 = the driver does not say
  std::string duplex; // "full", "half"; "" = the driver does not say
  bool operator==(const LinkState&) const = default;
};
// Nothing where there is no such interface.
[[nodiscard]] std::optional<LinkState> link_state(const MachineFiles& files, const std::string& interface);

} // namespace ductl::agent
