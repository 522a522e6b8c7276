#include "inventory/error.hpp"

#include <fmt/format.h>

namespace ductl {

std::string Error::code_name() const { return fmt::format("D{:04}", static_cast<int>(code)); }

std::string Error::text() const {
  std::string out = fmt::format("error[{}]: {}", code_name(), message);
  if (!place.empty()) out += "\n  --> " + place;
  if (!window.empty()) out += "\n" + window;
  if (!next.empty()) out += "\nhelp: " + next;
  return out;
}

} // namespace ductl
