// A wrong command line in words: what CLI11 found, and what was probably meant.
#pragma once

#include "inventory/error.hpp"

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace ductl::commands {

// `app` as it was left by the parse that threw `error`.
[[nodiscard]] Error explain_parse_error(const CLI::App& app, const CLI::ParseError& error);

} // namespace ductl::commands
