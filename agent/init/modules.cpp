#include "agent/init/modules.hpp"

#include "netboot/descriptor.hpp"
#include "netboot/image/modules/module_index.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ductl::agent::init {
namespace {

const std::string kFolder = "modules"; // of the image

Expected<image::ModuleIndex> read_index(const MachineFiles& files) {
  image::ModuleTexts texts;
  texts.dep = files.text(kFolder + "/modules.dep").value_or("");
  texts.alias = files.text(kFolder + "/modules.alias").value_or("");
  texts.softdep = files.text(kFolder + "/modules.softdep").value_or("");
  return image::ModuleIndex::parse(texts, "/" + kFolder);
}

} // namespace

Expected<int> Modules::load(const std::vector<std::string>& names, bool must_exist) {
  const auto index = read_index(files_);
  if (!index) return tl::unexpected(index.error());
  int fresh = 0;
  for (const std::string& name : names) {
    const auto order = index->load_order({name});
    if (!order && must_exist) return tl::unexpected(order.error());
    if (!order) continue;
    for (const std::string& file : *order) {
      if (!loaded_.insert(file).second) continue;
      ++fresh;
      if (auto loaded = load_(file); !loaded) spdlog::warn("{}", loaded.error().message);
    }
  }
  return fresh;
}

Expected<int> Modules::load_for_devices() {
  const auto index = read_index(files_);
  if (!index) return tl::unexpected(index.error());
  std::vector<std::string> names;
  for (const std::string bus : {"pci", "virtio"}) {
    const std::string folder = "sys/bus/" + bus + "/devices";
    for (const std::string& device : files_.names(folder))
      for (const std::string& name : index->modules_for(files_.line(folder + "/" + device + "/modalias").value_or("")))
        names.push_back(name);
  }
  return load(names, true);
}

Expected<int> Modules::load_by_name(const std::vector<std::string>& names) { return load(names, false); }

Expected<void> load_module(const MachineFiles& files, const std::string& file) {
  const std::string path = files.path(kFolder + "/" + file);
  const netboot::Descriptor module(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (module.open() && (::syscall(SYS_finit_module, module.get(), "", 0) == 0 || errno == EEXIST)) return {};
  return fail(ErrorCode::kState, fmt::format("module {} cannot be loaded: {}", file, std::strerror(errno)), path,
              "was the image built for this kernel?");
}

} // namespace ductl::agent::init
