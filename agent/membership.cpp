#include "agent/membership.hpp"

#include "netboot/http/http_server.hpp"

#include <fmt/format.h>

namespace ductl::agent {

Membership::Membership(Member member) : member_(std::move(member)) {}
Membership::Membership(const AdoptionRule& rule) : rule_(rule) {}

Member Membership::member() const {
  const std::lock_guard lock(mutex_);
  return member_;
}

bool Membership::adopted() const {
  const std::lock_guard lock(mutex_);
  return !member_.key.empty();
}

bool Membership::is_key(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  return !member_.key.empty() && http::equal_secrets(key, member_.key);
}

Expected<void> Membership::adopt(const Adoption& adoption, inventory::Ipv4 peer) {
  const std::lock_guard lock(mutex_);
  if (!member_.key.empty())
    return fail(ErrorCode::kAgentRefused, fmt::format("this duck is {} of flock {} already", member_.name, member_.flock), {},
                "one adoption a boot: restart it to give it to another flock");
  const bool is_host = rule_.boot_host != 0 && peer == rule_.boot_host;
  const bool is_neighbour =
      rule_.boot_host == 0 && rule_.netmask != 0 && (peer & rule_.netmask) == (rule_.address & rule_.netmask);
  if (!is_host && !is_neighbour)
    return fail(ErrorCode::kAgentRefused,
                fmt::format("{} may not adopt this duck, only its boot host {} may", inventory::to_string(peer),
                            rule_.boot_host == 0 ? "(a neighbour)" : inventory::to_string(rule_.boot_host)),
                {}, "run ductl on the host that the duck booted from");
  member_ = {adoption.name, adoption.flock, adoption.key};
  return {};
}

} // namespace ductl::agent
