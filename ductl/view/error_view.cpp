#include "ductl/view/error_view.hpp"

#include "ductl/view/style.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::view {
namespace {

// Messages of agents and of the engine may have several lines; each must be safe for a terminal.
std::string safe_lines(std::string_view text) {
  std::string out;
  for (bool more = true; more;) {
    const std::size_t end = text.find('\n');
    more = end != std::string_view::npos;
    out += printable(text.substr(0, end));
    if (more) out += '\n', text.remove_prefix(end + 1);
  }
  return out;
}

} // namespace

std::string error_text(const Error& error, bool colour) {
  std::string out = paint(fmt::format("error[{}]", error.code_name()), Style::Red, colour);
  out += paint(": " + safe_lines(error.message), Style::Bold, colour) + "\n";
  if (!error.place.empty()) out += paint("  --> ", Style::Cyan, colour) + safe_lines(error.place) + "\n";
  if (!error.window.empty()) out += error.window + "\n"; // made printable when it was built
  if (!error.next.empty()) out += paint("help", Style::Cyan, colour) + ": " + safe_lines(error.next) + "\n";
  return out;
}

nlohmann::ordered_json error_json(const Error& error) {
  return {{"code", error.code_name()}, {"message", error.message}, {"place", error.place}, {"next", error.next}};
}

nlohmann::ordered_json errors_document(std::span<const Error> errors) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Error& error : errors) all.push_back(error_json(error));
  nlohmann::ordered_json document{{"schema", "ductl/error/v1"}};
  document["error"] = all.empty() ? nlohmann::ordered_json() : all.front();
  document["errors"] = std::move(all);
  return document;
}

} // namespace ductl::view
