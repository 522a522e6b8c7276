// Which inventory, which colours, and what a context reports.
#include "ductl/commands/command.hpp"
#include "ductl/commands/options.hpp"

#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace ductl::commands {
namespace {

using ::testing::HasSubstr;

struct World {
  std::map<std::string, std::string> environment;
  std::set<std::string> files;

  Expected<InventoryChoice> choose(const std::string& option = "") const {
    return choose_inventory(
        option,
        [this](const char* name) -> std::optional<std::string> {
          const auto found = environment.find(name);
          return found == environment.end() ? std::nullopt : std::optional(found->second);
        },
        [this](const std::filesystem::path& file) { return files.count(file.string()) > 0; });
  }
  std::string chosen(const std::string& option = "") const {
    const auto choice = choose(option);
    return choice ? choice->file.string() : "none";
  }
};

TEST(InventoryChoiceOrder, EachPlaceComesBeforeTheNext) {
  World world{{{"DUCTL_INVENTORY", "/env.toml"}, {"XDG_CONFIG_HOME", "/cfg"}, {"HOME", "/home/me"}},
              {"flock.toml", "inventory/local.toml", "/cfg/ductl/flock.toml", "/home/me/.config/ductl/flock.toml",
               "/etc/ductl/flock.toml"}};
  EXPECT_EQ(world.chosen("given.toml"), "given.toml");
  EXPECT_EQ(world.chosen(), "/env.toml");
  world.environment.erase("DUCTL_INVENTORY");
  EXPECT_EQ(world.chosen(), "flock.toml");
  world.files.erase("flock.toml");
  EXPECT_EQ(world.chosen(), "inventory/local.toml");
  world.files.erase("inventory/local.toml");
  EXPECT_EQ(world.chosen(), "/cfg/ductl/flock.toml");
  world.environment.erase("XDG_CONFIG_HOME");
  EXPECT_EQ(world.chosen(), "/home/me/.config/ductl/flock.toml");
  world.environment.erase("HOME");
  EXPECT_EQ(world.chosen(), "/etc/ductl/flock.toml");
  world.files.clear();
  EXPECT_THAT(world.choose().error().next, HasSubstr("$DUCTL_INVENTORY"));
}

TEST(InventoryChoiceOrder, EmptyVariablesAndRelativeFoldersDoNotCount) {
  const World world{{{"DUCTL_INVENTORY", ""}, {"XDG_CONFIG_HOME", "cfg"}, {"HOME", "/h"}},
                    {"cfg/ductl/flock.toml", "/h/.config/ductl/flock.toml"}};
  EXPECT_EQ(world.chosen(), "/h/.config/ductl/flock.toml");
}

TEST(InventoryChoiceOrder, AFileThatWasNamedNeedNotExistHere) { EXPECT_EQ(World{}.chosen("/no/such"), "/no/such"); }

TEST(Colour, EachReasonTurnsItOff) {
  EXPECT_TRUE(use_colour({true, false, false}, false));
  EXPECT_FALSE(use_colour({false, false, false}, false));
  EXPECT_FALSE(use_colour({true, true, false}, false));
  EXPECT_FALSE(use_colour({true, false, true}, false));
  EXPECT_FALSE(use_colour({true, false, false}, true));
}

struct Captured {
  CommandContext context;
  std::string out, err;
  Captured() {
    context.out.write = [this](std::string_view text) { out += text; };
    context.err.write = [this](std::string_view text) { err += text; };
  }
};

TEST(CommandContext, AnErrorIsTextOnStderrAndJsonOnStdoutWhenAsked) {
  Captured table;
  EXPECT_EQ(table.context.report(Error{ErrorCode::kDuckDied, "m", "p", "n", {}}), ExitCode::Failed);
  EXPECT_EQ(table.out, "");
  EXPECT_EQ(table.err, "error[D0304]: m\n  --> p\nhelp: n\n");
  Captured json;
  json.context.format = OutputFormat::Jsonl;
  EXPECT_EQ(json.context.report(Error{ErrorCode::kUsage, "m\xff", "", "", {}}), ExitCode::Usage);
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(json.out)["error"]["code"], "D0500");
}

TEST(CommandContext, AFaultyInventoryIsReportedWholeAndOnce) {
  Captured captured;
  captured.context.inventory_option = std::string(DUCTL_SOURCE_DIR) + "/tests/fuzz/corpus/inventory/faulty.toml";
  captured.context.format = OutputFormat::Json;
  EXPECT_EQ(captured.context.flock(), nullptr);
  EXPECT_THAT(captured.err, ::testing::StartsWith("inventory: "));
  EXPECT_GT(nlohmann::json::parse(captured.out)["errors"].size(), 2u);
}

TEST(CommandContext, TheInventoryIsNamedOnce) {
  Captured captured;
  captured.context.inventory_option = std::string(DUCTL_SOURCE_DIR) + "/inventory/local.toml";
  const inventory::Flock* flock = captured.context.flock();
  ASSERT_NE(flock, nullptr);
  EXPECT_EQ(captured.context.flock(), flock);
  EXPECT_EQ(captured.err, "inventory: " + captured.context.inventory_option + " (-i)\n");
  EXPECT_EQ(captured.out, "");
}

TEST(CommandContext, NextStepsNameTheInventoryThatWasGiven) {
  Captured captured;
  EXPECT_EQ(captured.context.command_text("chat"), "ductl chat");
  EXPECT_EQ(captured.context.with_inventory(std::string("run `ductl up`")), "run `ductl up`");
  captured.context.inventory_option = "my flock.toml";
  EXPECT_EQ(captured.context.command_text("chat"), "ductl -i 'my flock.toml' chat");
  EXPECT_EQ(
      captured.context.with_inventory(
          std::string("read its log, then run `ductl up`; `ductl status` shows, `ductl --help` lists")),
      "read its log, then run `ductl -i 'my flock.toml' up`; `ductl -i 'my flock.toml' status` shows, `ductl --help` lists");
  captured.context.report({ErrorCode::kDuckDied, "it died", "", "run `ductl up`", {}});
  EXPECT_THAT(captured.err, ::testing::HasSubstr("run `ductl -i 'my flock.toml' up`"));
}

TEST(CommandContext, WithoutATerminalConfirmingNeedsYes) {
  Captured captured;
  EXPECT_EQ(captured.context.confirm("stop it").error().code, ErrorCode::kNotConfirmed);
  captured.context.yes = true;
  EXPECT_TRUE(captured.context.confirm("stop it").has_value());
}

TEST(CommandContext, NothingChosenIsWrongUsage) { EXPECT_EQ(Captured().context.run(), ExitCode::Usage); }

} // namespace
} // namespace ductl::commands
