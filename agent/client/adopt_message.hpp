// Taking a netbooted duck into a flock: the body of POST /v1/adopt, both ends of it (docs/control.md, docs/security.md). Pure.
//
// A duck that came up over the network knows no key. It takes one adoption a boot, from its boot host only; from then on
// every verb needs that key.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ductl::agent {

// What the inventory says of a duck; 0 or "" = not said.
struct Expectations {
  std::uint64_t memory_bytes = 0;
  int cores = 0;
  int link_mbps = 0;
  std::string image; // id that the host serves
  bool operator==(const Expectations&) const = default;
};

struct Adoption {
  std::string flock, name; // as in the inventory: [a-z0-9-]{1,63}
  std::string key;         // 64 lower-case hex digits
  Expectations expected;
  std::int64_t time_ms = 0; // the host's clock, since 1970: the duck sets its own by it
  bool operator==(const Adoption&) const = default;
};

[[nodiscard]] std::string adoption_text(const Adoption& adoption);
[[nodiscard]] Expected<Adoption> parse_adoption(std::string_view text); // no byte of the key in errors

} // namespace ductl::agent
