// The target of a request line: path and query, percent-decoded. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ductl::http {

struct RequestTarget {
  std::string path;
  std::map<std::string, std::string> query; // the last of equal names counts
};

// Nothing when the target does not start with '/', an escape is broken, or a NUL or control character comes out.
[[nodiscard]] std::optional<RequestTarget> parse_request_target(std::string_view target);

} // namespace ductl::http
