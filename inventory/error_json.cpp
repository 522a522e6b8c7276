#include "inventory/error_json.hpp"

#include "inventory/fault_log.hpp"

#include <nlohmann/json.hpp>

namespace ductl {

nlohmann::ordered_json error_json(const Error& error) {
  // A fault in a file has its hint at the caret, where a person reads it.
  const std::string next = error.next.empty() ? inventory::window_label(error.window) : error.next;
  return {{"code", error.code_name()}, {"message", error.message}, {"place", error.place}, {"next", next}};
}

nlohmann::ordered_json errors_document(std::span<const Error> errors) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Error& error : errors) all.push_back(error_json(error));
  nlohmann::ordered_json document{{"schema", "ductl/error/v1"}};
  document["error"] = all.empty() ? nlohmann::ordered_json() : all.front();
  document["errors"] = std::move(all);
  return document;
}

std::string errors_text(std::span<const Error> errors) {
  return errors_document(errors).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace ductl
