#include "engine/commands/commands.hpp"

#include <cstdio>
#include <fmt/format.h>

namespace ductl::engine {

int report(const Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return error.code == ErrorCode::kUsage ? kExitUsage : kExitFailed;
}

} // namespace ductl::engine
