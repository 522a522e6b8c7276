#include "ductl/commands/image.hpp"

#include "ductl/boot/esp_writer.hpp"
#include "ductl/commands/command.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

constexpr std::size_t kIdShown = 12;

ExitCode run_esp(CommandContext& context, const std::string& folder) {
  inventory::Flock none; // an image can be had without an inventory
  const inventory::Flock* flock = &none;
  if (!context.inventory_option.empty() || context.inventory_choice()) flock = context.flock();
  if (flock == nullptr) return ExitCode::Usage;
  const auto image = boot::find_duck_image(*flock);
  if (!image) return context.report(image.error());
  const auto written = boot::write_esp(*image, folder, context.yes);
  if (!written) return context.report(written.error());
  if (!written->fat) context.say(fmt::format("{} is not on a FAT file system: firmware reads no other", folder));
  const std::string id = image->manifest.image.substr(0, kIdShown);
  if (context.wants_json()) {
    context.write_json({{"schema", "ductl/image-esp/v1"},
                        {"changed", written->changed},
                        {"file", written->file.string()},
                        {"image", image->manifest.image}});
  } else {
    context.out.write(written->changed ? fmt::format("Written: image {} as {}.\n", id, written->file.string())
                                       : fmt::format("Nothing to do: {} is image {} already.\n", written->file.string(), id));
  }
  return ExitCode::Ok;
}

} // namespace

void add_image(CLI::App& app, CommandContext& context) {
  CLI::App* verb = app.add_subcommand("image", "The image that ducks boot, on a disk");
  verb->require_subcommand(1);
  CLI::App* esp = verb->add_subcommand("esp", "Write the image as the loader of an EFI system partition");
  const auto folder = std::make_shared<std::string>();
  esp->add_option("FOLDER", *folder, "Where the partition is mounted")->required();
  esp->footer(
      "For ducks that forget to boot over the network: firmware that knows no boot entry starts EFI/BOOT/BOOTX64.EFI of any "
      "disk\n"
      "or stick that it finds. Such a duck runs the image of the day it was written: write it again with each new image.\n"
      "It still needs the DHCP of `ductl up` or `ductl netboot` for its address. docs/bios.md.\n"
      "Example:\n  mount /dev/sdb1 /mnt && ductl image esp /mnt && umount /mnt");
  esp->callback([&context, folder] { context.choose([&context, folder] { return run_esp(context, *folder); }); });
}

} // namespace ductl::commands
