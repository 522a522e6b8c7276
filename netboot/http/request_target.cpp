#include "netboot/http/request_target.hpp"

namespace ductl::http {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

bool parse_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto name = decode(pair.substr(0, equals), true);
    const auto value = decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    query[*name] = *value;
  }
  return true;
}

} // namespace

std::optional<RequestTarget> parse_request_target(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  const std::size_t fragment = target.find('#');
  if (fragment != std::string_view::npos) return std::nullopt;
  const std::size_t question = target.find('?');
  RequestTarget out;
  auto path = decode(target.substr(0, question), false);
  if (!path) return std::nullopt;
  out.path = std::move(*path);
  if (question != std::string_view::npos && !parse_query(target.substr(question + 1), out.query)) return std::nullopt;
  return out;
}

} // namespace ductl::http
