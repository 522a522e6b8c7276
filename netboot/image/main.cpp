// make-duck-image: makes a duck's image out of unpacked Debian packages and a static agent. Fetches nothing; see the CMake
// target duck-image, and docs/image.md.
#include "inventory/version.hpp"
#include "netboot/image/build_image.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

using namespace ductl;

void add_options(CLI::App& app, image::ImageInputs& inputs, std::filesystem::path& out) {
  app.add_option("--kernel", inputs.kernel, "Folder of the unpacked kernel package, with depmod's lists")->required();
  app.add_option("--stub", inputs.stub, "Folder of the unpacked package systemd-boot-efi")->required();
  app.add_option("--agent", inputs.agent, "The static duck-agent, /init of the image")->required();
  app.add_option("--out", out, "Folder that duck.efi, initrd.zst, vmlinuz and manifest.json go to")->required();
  app.add_option("--firmware", inputs.firmware, "Folder of the unpacked package firmware-realtek");
  app.add_option("--loaders", inputs.loaders, "Folder of the unpacked package ipxe, whose loaders are copied beside");
  app.add_option("--module", inputs.more_modules, "One more kernel module, with all it needs; may be repeated");
  app.add_option("--command-line", inputs.command_line, "The kernel's command line in duck.efi")->capture_default_str();
}

void print(const image::Manifest& manifest) {
  fmt::print("image {}\n", manifest.image);
  for (const auto& files : {manifest.files, manifest.loaders})
    for (const auto& [name, file] : files) fmt::print("{:>10} bytes  {}\n", file.bytes, name);
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"make-duck-image: makes the image that ducks boot", "make-duck-image"};
  app.set_version_flag("--version", fmt::format("make-duck-image {} ({})", kVersion, kRevision));
  image::ImageInputs inputs;
  std::filesystem::path out;
  add_options(app, inputs, out);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 64; }
  const auto manifest = image::build_image(inputs, out);
  if (!manifest) {
    fmt::print(stderr, "{}\n", manifest.error().text());
    return 1;
  }
  print(*manifest);
  return 0;
}
