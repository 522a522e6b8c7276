#include "ductl/view/error_view.hpp"

#include "ductl/view/style.hpp"

#include <fmt/format.h>

namespace ductl::view {

std::string error_text(const Error& error, bool colour) {
  // Messages of agents and of the engine may have several lines; each must be safe for a terminal.
  std::string out = paint(fmt::format("error[{}]", error.code_name()), Style::Red, colour);
  out += paint(": " + printable_lines(error.message), Style::Bold, colour) + "\n";
  if (!error.place.empty()) out += paint("  --> ", Style::Cyan, colour) + printable_lines(error.place) + "\n";
  if (!error.window.empty()) out += error.window + "\n"; // made printable when it was built
  if (!error.next.empty()) out += paint("help", Style::Cyan, colour) + ": " + printable_lines(error.next) + "\n";
  return out;
}

} // namespace ductl::view
