// Errors for programs: {"code", "message", "place", "next"}, and the document that stands for a command's output when it failed.
#pragma once

#include "inventory/error.hpp"

#include <nlohmann/json_fwd.hpp>
#include <span>

namespace ductl {

[[nodiscard]] nlohmann::ordered_json error_json(const Error& error);
// {"schema": "ductl/error/v1", "error": the first, "errors": [all]}.
[[nodiscard]] nlohmann::ordered_json errors_document(std::span<const Error> errors);
// The same, indented; what is not UTF-8 in it is replaced.
[[nodiscard]] std::string errors_text(std::span<const Error> errors);

} // namespace ductl
