#include "agent/machine/network_card.hpp"

#include <algorithm>

namespace ductl::agent {
namespace {

constexpr std::int64_t kEthernet = 1; // ARPHRD_ETHER

}

std::vector<NetworkCard> network_cards(const MachineFiles& files) {
  std::vector<NetworkCard> cards;
  for (const std::string& name : files.names("sys/class/net")) {
    const std::string folder = "sys/class/net/" + name;
    if (files.number(folder + "/type") != kEthernet || !files.exists(folder + "/device")) continue;
    const auto mac = inventory::parse_mac(files.line(folder + "/address").value_or(""));
    if (mac) cards.push_back({name, *mac});
  }
  return cards;
}

std::optional<NetworkCard> choose_card(const std::vector<NetworkCard>& cards, const std::optional<inventory::Mac>& boot_mac) {
  if (!boot_mac) return cards.size() == 1 ? std::optional(cards.front()) : std::nullopt;
  const auto found = std::find_if(cards.begin(), cards.end(), [&](const NetworkCard& card) { return card.mac == *boot_mac; });
  return found == cards.end() ? std::nullopt : std::optional(*found);
}

std::optional<LinkState> link_state(const MachineFiles& files, const std::string& interface) {
  const std::string folder = "sys/class/net/" + interface;
  if (!files.exists(folder)) return std::nullopt;
  LinkState state;
  state.carrier = files.number(folder + "/carrier") == 1;
  state.mbps =
      static_cast<int>(std::clamp<std::int64_t>(files.number(folder + "/speed").value_or(0), 0, 1'000'000)); // -1 = unknown
  const std::string duplex = files.line(folder + "/duplex").value_or("");
  if (duplex == "full" || duplex == "half") state.duplex = duplex;
  return state;
}

} // namespace ductl::agent
