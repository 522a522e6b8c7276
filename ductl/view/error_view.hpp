// Errors for people, in rustc's form. For programs: inventory/error_json.hpp.
#pragma once

#include "inventory/error.hpp"

#include <string>

namespace ductl::view {

// Error::text(), coloured, with a newline at the end.
[[nodiscard]] std::string error_text(const Error& error, bool colour);

} // namespace ductl::view
