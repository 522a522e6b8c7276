// Errors for people (rustc's form) and for programs.
#pragma once

#include "inventory/inventory.hpp"

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace ductl::view {

// Error::text(), coloured, with a newline at the end.
[[nodiscard]] std::string error_text(const Error& error, bool colour);
// {"code","message","place","next"}
[[nodiscard]] nlohmann::ordered_json error_json(const Error& error);
// {"schema":"ductl/error/v1","error":{first},"errors":[all]}
[[nodiscard]] nlohmann::ordered_json errors_document(std::span<const Error> errors);

} // namespace ductl::view
