// Who listens on an address already: for the message of "address in use".
#pragma once

#include <cstdint>
#include <string>

namespace ductl::http {

// "PID 4711 (duck-agent)", or "" when it cannot be told (another user's process, another namespace). Reads /proc.
[[nodiscard]] std::string tcp_port_holder(std::uint32_t address, std::uint16_t port);
[[nodiscard]] std::string udp_port_holder(std::uint32_t address, std::uint16_t port);

} // namespace ductl::http
