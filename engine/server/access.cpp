#include "engine/server/access.hpp"

#include "netboot/http/http_server.hpp"

#include <algorithm>
#include <cctype>

namespace ductl::engine {
namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_dotted_loopback(std::string_view text) { // 127.x.x.x, each x of 1 to 3 digits up to 255
  if (!text.starts_with("127.")) return false;
  int parts = 0;
  for (std::string_view rest = text;; ++parts) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (!is_port(part) || part.size() > 3 || std::stoi(std::string(part)) > 255) return false;
    if (dot == std::string_view::npos) return parts == 3;
    rest.remove_prefix(dot + 1);
  }
}

} // namespace

bool is_loopback_host(std::string_view host) {
  std::string_view name = host;
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    if (!is_port(host.substr(colon + 1))) return false;
    name = host.substr(0, colon);
  }
  return lower(name) == "localhost" || name == "[::1]" || is_dotted_loopback(name);
}

bool is_foreign_origin(std::string_view origin, std::string_view host) {
  if (origin.empty()) return false;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return lower(origin.substr(scheme.size())) != lower(host);
  }
  return true; // "null", file:, extensions
}

bool is_known_key(std::string_view key, std::span<const std::string> keys) {
  bool known = false;
  for (const std::string& candidate : keys) known = http::equal_secrets(key, candidate) || known;
  return known;
}

} // namespace ductl::engine
