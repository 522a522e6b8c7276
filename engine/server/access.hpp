// Who may talk to the API: keys, and web pages that must not reach a server on loopback. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ductl::engine {

[[nodiscard]] constexpr bool is_loopback(std::uint32_t address) { return address >> 24 == 127; }

// Whether "host[:port]" names this machine: localhost, 127.x.x.x or [::1]. A name that a web page made resolve to 127.0.0.1
// (DNS rebinding) does not.
[[nodiscard]] bool is_loopback_host(std::string_view host);

// Whether a browser sent this for a page of another origin. Programs send no Origin.
[[nodiscard]] bool is_foreign_origin(std::string_view origin, std::string_view host);

// Whether the key is one of them; takes the same time for every wrong one of the same length.
[[nodiscard]] bool is_known_key(std::string_view key, std::span<const std::string> keys);

} // namespace ductl::engine
