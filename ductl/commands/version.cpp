#include "ductl/commands/version.hpp"

#include "ductl/commands/command.hpp"
#include "inventory/version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {

void add_version(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("version", "Print the version");
  verb->callback([&context] {
    context.choose([&context] {
      if (context.wants_json())
        context.write_json({{"schema", "ductl/version/v1"}, {"version", kVersion}, {"revision", kRevision}});
      else
        context.out.write(fmt::format("ductl {} ({})\n", kVersion, kRevision));
      return ExitCode::Ok;
    });
  });
}

} // namespace ductl::commands
