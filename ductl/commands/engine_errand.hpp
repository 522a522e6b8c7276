// A command of duck-engine that we run in the foreground for one answer: alone, or on a temporary flock that is raised for it.
// The caller holds an InterruptWatch with SecondSignal::Ignored: the flock goes down, however often somebody presses Ctrl-C.
#pragma once

#include "ductl/commands/command.hpp"

#include <string>
#include <vector>

namespace ductl::commands {

[[nodiscard]] ExitCode run_engine(CommandContext& context, const std::vector<std::string>& arguments);

// Raises N local ducks, fills them from `model_source`, runs duck-engine with `arguments` and "--state DIR", and lowers the
// ducks, whatever it answered.
[[nodiscard]] ExitCode run_engine_with_ducks(CommandContext& context, int ducks, const std::string& model_source,
                                             std::vector<std::string> arguments);

} // namespace ductl::commands
