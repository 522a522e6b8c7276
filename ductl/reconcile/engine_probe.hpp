// Two questions to a running duck-engine over its HTTP API: is it well, and how long does a token take. libcurl, blocking
// for at most `limit`; any thread.
#pragma once

#include "inventory/error.hpp"
#include "inventory/inventory.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace ductl::reconcile {

struct EngineHealth {
  bool healthy = false;
  std::string reason = {}; // why not
};
[[nodiscard]] EngineHealth engine_health(inventory::Ipv4 address, std::uint16_t port, std::chrono::milliseconds limit);

// Asks for one token and waits for it. `key` is the API's, empty where it needs none. kCancelled once `interrupted` is true
// (asked about once a second).
[[nodiscard]] Expected<void> ask_one_token(inventory::Ipv4 address, std::uint16_t port, const std::string& key,
                                           std::chrono::milliseconds limit, const std::function<bool()>& interrupted);

} // namespace ductl::reconcile
