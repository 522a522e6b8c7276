#include "ductl/commands/all_commands.hpp"

#include "ductl/commands/bench.hpp"
#include "ductl/commands/chat.hpp"
#include "ductl/commands/down.hpp"
#include "ductl/commands/image.hpp"
#include "ductl/commands/model.hpp"
#include "ductl/commands/netboot.hpp"
#include "ductl/commands/plan.hpp"
#include "ductl/commands/run.hpp"
#include "ductl/commands/status.hpp"
#include "ductl/commands/up.hpp"
#include "ductl/commands/validate.hpp"
#include "ductl/commands/version.hpp"

namespace ductl::commands {

void add_all_commands(CLI::App& app, CommandContext& context) {
  add_up(app, context);
  add_chat(app, context);
  add_run(app, context);
  add_status(app, context);
  add_plan(app, context);
  add_down(app, context);
  add_netboot(app, context);
  add_image(app, context);
  add_validate(app, context);
  add_model(app, context);
  add_bench(app, context);
  add_version(app, context);
}

} // namespace ductl::commands
