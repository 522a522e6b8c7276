// Running a program of ours in the foreground: it has our stdin, stdout and stderr, and we wait for it.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ductl::power {

// Its exit code, or 128 + the signal that ended it. When `interrupted` turns true (asked a few times a second) it gets one
// SIGTERM, and five seconds later SIGKILL.
[[nodiscard]] Expected<int> run_foreground(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                           const std::function<bool()>& interrupted);

struct Captured {
  int code = 0; // as above
  std::string out;
};
// The same, but what it writes on stdout is ours to read.
[[nodiscard]] Expected<Captured> run_captured(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                              const std::function<bool()>& interrupted);

} // namespace ductl::power
