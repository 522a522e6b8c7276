// Waiting on several transports at once (a host has one per port).
#pragma once

#include "agent/transport/transport.hpp"

#include <memory>

namespace ductl::agent {

// At most so many; more ports than any host has.
inline constexpr std::size_t kWaitAnyMax = 64;

// Like transport->wait() for whichever has a frame first. When one of them can only be polled, that one's wait() decides
// (a polled network's returns at once).
void wait_any(std::span<const std::unique_ptr<Transport>> transports, Duration timeout);

} // namespace ductl::agent
