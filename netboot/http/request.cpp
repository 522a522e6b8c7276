#include "netboot/http/http_server.hpp"

#include <openssl/crypto.h>

#include <cctype>

namespace ductl::http {

namespace {

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) != lower[i]) return false;
  return true;
}

} // namespace

std::string_view Request::header(std::string_view lower_case_name) const {
  const auto found = headers.find(std::string(lower_case_name));
  return found == headers.end() ? std::string_view{} : std::string_view(found->second);
}

std::string_view Request::bearer() const {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = header("authorization");
  if (value.size() <= kScheme.size() || !equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return {};
  value.remove_prefix(kScheme.size());
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  // A length is no secret here: keys have one length each.
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

} // namespace ductl::http
