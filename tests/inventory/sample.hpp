// A small valid inventory, and variations of it by replacing text.
#pragma once

#include "inventory/inventory.hpp"

#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace ductl::inventory {

inline constexpr std::string_view kSample = R"([flock]
name = "test"

[[port]]
name = "port1"
interface = "lo"
address = "127.21.1.1/24"

[[ducks]]
port = "port1"
name = "duck[01-02]"
address = "127.21.1.[101-102]"

[[duck]]
port = "port1"
name = "extra"
address = "127.21.1.110"

[model]
source = "some/model"
)";

// The sample with the first `from` replaced. `from` must be there: a test that changes nothing tests nothing.
inline std::string with(std::string_view from, std::string_view to, std::string_view text = kSample) {
  std::string out(text);
  const std::size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? out : out.replace(at, from.size(), to);
}

inline std::string plus(std::string_view lines) { return std::string(kSample) + std::string(lines); }

// The faults of a text that must have some.
inline std::vector<Error> faults_of(const std::string& text) {
  auto parsed = parse_inventory(text, "flock.toml");
  EXPECT_FALSE(parsed.has_value()) << text;
  return parsed ? std::vector<Error>{} : parsed.error().errors;
}

// The one fault of a text that must have exactly one.
inline Error fault_of(const std::string& text) {
  const std::vector<Error> faults = faults_of(text);
  EXPECT_EQ(faults.size(), 1u);
  for (std::size_t i = 1; i < faults.size(); ++i) ADD_FAILURE() << faults[i].text();
  return faults.empty() ? Error{} : faults.front();
}

} // namespace ductl::inventory
