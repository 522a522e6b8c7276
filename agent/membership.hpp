// Whose duck this is: name, flock and key, and how a netbooted duck without any comes by them.
//
// An agent of a local flock is told at its start and stays so. A netbooted one takes one adoption a boot, while it has no key and
// only from its boot host (docs/security.md says what that is worth). Any thread.
#pragma once

#include "agent/client/adopt_message.hpp"
#include "inventory/inventory.hpp"

#include <mutex>
#include <string>
#include <string_view>

namespace ductl::agent {

struct Member {
  std::string name, flock, key; // all empty = nobody's
};

// Who may adopt. Where the boot host is not known (another DHCP server, and no word on the kernel's command line), any neighbour
// of the same network.
struct AdoptionRule {
  inventory::Ipv4 boot_host = 0; // 0 = not known
  inventory::Ipv4 address = 0;   // our own
  inventory::Ipv4 netmask = 0;
};

class Membership {
public:
  explicit Membership(Member member); // for good
  explicit Membership(const AdoptionRule& rule);

  [[nodiscard]] Member member() const;
  [[nodiscard]] bool adopted() const;
  [[nodiscard]] bool is_key(std::string_view key) const; // in constant time; never true while there is none
  // kAgentRefused with the reason. `peer` is the address that the request came from.
  [[nodiscard]] Expected<void> adopt(const Adoption& adoption, inventory::Ipv4 peer);

private:
  mutable std::mutex mutex_; // member_
  Member member_;
  const AdoptionRule rule_;
};

} // namespace ductl::agent
