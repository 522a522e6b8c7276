// Any text is a flock or a list of faults.
#include "inventory/inventory.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kSizeMax = 2048; // larger texts only cost time: toml11 is slow with sanitizers
  if (size > kSizeMax) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto flock = ductl::inventory::parse_inventory(text, "fuzz.toml");
  if (flock) {
    if (flock->ducks.size() > ductl::inventory::kDucksMax || flock->ports.empty()) std::abort();
    for (const auto& duck : flock->ducks)
      if (duck.port_index < 0 || static_cast<std::size_t>(duck.port_index) >= flock->ports.size()) std::abort();
  } else if (flock.error().errors.empty() || flock.error().text().find('\x1b') != std::string::npos) {
    std::abort();
  }
  return 0;
}
