// What depmod knows about a kernel's modules, and the order in which to load them.
//
// Text in, answers out: no file is read here. The same code chooses the modules at build time, from the kernel package's
// own modules.*, and finds them on a duck, from the image's trimmed ones, so both agree on order and names. A module's
// name is its file's without ".ko"; '-' and '_' are the same letter in it, as in modprobe.
#pragma once

#include "inventory/error.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::image {

// Whole contents of modules.dep, modules.alias, modules.softdep and modules.builtin. An image has no builtin list.
struct ModuleTexts {
  std::string dep, alias, softdep, builtin;
};

// "virtio_net" of "kernel/drivers/net/virtio_net.ko", "i2c_algo_bit" of "i2c-algo-bit.ko".
[[nodiscard]] std::string module_name(std::string_view file);
// "virtio_net.ko" of "kernel/drivers/net/virtio_net.ko".
[[nodiscard]] std::string_view flat_name(std::string_view file);

class ModuleIndex {
public:
  // Fails with kImageInput, naming list and line. `place` is the folder of the lists, for messages.
  [[nodiscard]] static Expected<ModuleIndex> parse(const ModuleTexts& texts, const std::string& place);

  // Files (as modules.dep writes them) to load, in this order, so that these modules work: what a module needs comes
  // before it, and so does what it only asks for ("softdep pre") where that exists; "softdep post" comes behind it. Each
  // file once; nothing for what is built into the kernel. A softdep that names an alias ("crypto-crc32c") is not followed:
  // no network driver has one. Fails with kImageInput for a name that is neither.
  [[nodiscard]] Expected<std::vector<std::string>> load_order(const std::vector<std::string>& names) const;

  // Names of the modules that say they drive such a device, in the order of modules.alias, each once.
  [[nodiscard]] std::vector<std::string> modules_for(const std::string& modalias) const;

  // The lists of an image that holds only `files`, all in one folder: same formats, flat names, sorted. Of the aliases
  // those of PCI and virtio devices, the buses that a duck's network hangs on. `files` come from load_order(). Fails where two
  // files have the same name.
  [[nodiscard]] Expected<ModuleTexts> trimmed(const std::vector<std::string>& files) const;

private:
  struct Module {
    std::string file;
    std::vector<std::string> needs;          // names, in the order in which to load them
    std::vector<std::string> before, behind; // softdep pre and post; may name what does not exist
  };
  struct Alias {
    std::string pattern, name;
  };
  struct Walk {
    std::set<std::string> seen;
    std::vector<std::string> files;
  };

  [[nodiscard]] Expected<void> read_dep(std::string_view text);
  [[nodiscard]] Expected<void> read_alias(std::string_view text);
  [[nodiscard]] Expected<void> read_softdep(std::string_view text);
  void read_builtin(std::string_view text);
  [[nodiscard]] tl::unexpected<Error> bad_line(const char* list, std::size_t line, std::string why) const;
  void visit(const std::string& name, Walk& walk) const;

  std::string place_;
  std::map<std::string, Module> modules_; // by name
  std::vector<Alias> aliases_;
  std::set<std::string> builtin_;
};

} // namespace ductl::image
