#include "netboot/image/modules/module_index.hpp"

#include "netboot/image/modules/modalias.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace ductl::image {
namespace {

constexpr std::string_view kSpace = " \t\r";

struct Line {
  std::size_t number;
  std::string_view text;
};

// Without comments and empty lines.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin != std::string_view::npos && line[begin] != '#') lines.push_back({number, line});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kSpace), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Of letters that can stand in a list: neither a space, which would end the name, nor a '#' in front, a comment's.
bool is_module_file(std::string_view file) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.";
  const std::string_view name = flat_name(file);
  return name.size() > 3 && name.ends_with(".ko") && name.find_first_not_of(kLetters) == std::string_view::npos;
}

bool is_network_alias(std::string_view pattern) { return pattern.starts_with("pci:") || pattern.starts_with("virtio:"); }

// " pre: a b", or nothing where none of the names is in the image.
std::string softdep_words(const char* title, const std::vector<std::string>& names, const std::set<std::string>& chosen) {
  std::string out;
  for (const std::string& name : names)
    if (chosen.contains(name)) out += ' ' + name;
  return out.empty() ? out : title + out;
}

} // namespace

std::string_view flat_name(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

std::string module_name(std::string_view file) {
  std::string name(flat_name(file));
  if (name.ends_with(".ko")) name.resize(name.size() - 3);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

tl::unexpected<Error> ModuleIndex::bad_line(const char* list, std::size_t line, std::string why) const {
  return fail(ErrorCode::kImageInput, std::move(why), place_ + "/" + list + ":" + std::to_string(line),
              "write the lists anew with depmod (package kmod)");
}

// "kernel/a/virtio_net.ko: kernel/b/net_failover.ko kernel/c/failover.ko": what is needed, the last one first.
Expected<void> ModuleIndex::read_dep(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    const std::size_t colon = line.text.find(':');
    const std::string file(line.text.substr(0, colon));
    if (colon == std::string_view::npos || !is_module_file(file))
      return bad_line("modules.dep", line.number, "the line does not begin with \"FILE.ko:\"");
    Module module;
    module.file = file;
    for (const std::string_view needed : words_of(line.text.substr(colon + 1))) {
      if (!is_module_file(needed))
        return bad_line("modules.dep", line.number, "\"" + std::string(needed) + "\" is no module's file");
      module.needs.push_back(module_name(needed));
    }
    std::reverse(module.needs.begin(), module.needs.end());
    if (!modules_.emplace(module_name(file), std::move(module)).second)
      return bad_line("modules.dep", line.number, "module \"" + module_name(file) + "\" has a line already");
  }
  for (const auto& [name, module] : modules_)
    for (const std::string& needed : module.needs)
      if (!modules_.contains(needed))
        return fail(ErrorCode::kImageInput, "module \"" + name + "\" needs \"" + needed + "\", which has no line of its own",
                    place_ + "/modules.dep", "write the lists anew with depmod (package kmod)");
  return {};
}

// "alias pci:v00008086d000010D3sv*sd*bc*sc*i* e1000e".
Expected<void> ModuleIndex::read_alias(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    const std::vector<std::string_view> words = words_of(line.text);
    if (words.size() != 3 || words[0] != "alias")
      return bad_line("modules.alias", line.number, "the line is not \"alias PATTERN MODULE\"");
    aliases_.push_back({std::string(words[1]), module_name(words[2])});
  }
  return {};
}

// "softdep r8169 pre: realtek post: other". Debian's kernels also have "softdep cifs gcm", with neither word: ignored, as by
// modprobe.
Expected<void> ModuleIndex::read_softdep(std::string_view text) {
  for (const Line& line : lines_of(text)) {
    const std::vector<std::string_view> words = words_of(line.text);
    if (words.size() < 2 || words[0] != "softdep")
      return bad_line("modules.softdep", line.number, "the line is not \"softdep MODULE pre: MODULES post: MODULES\"");
    const auto found = modules_.find(module_name(words[1]));
    if (found == modules_.end()) continue; // of a built-in driver; what it asks for must come before the initramfs
    std::vector<std::string>* list = nullptr;
    for (const std::string_view word : std::span(words).subspan(2)) {
      if (word == "pre:")
        list = &found->second.before;
      else if (word == "post:")
        list = &found->second.behind;
      else if (list != nullptr)
        list->push_back(module_name(word));
    }
  }
  return {};
}

void ModuleIndex::read_builtin(std::string_view text) {
  for (const Line& line : lines_of(text)) builtin_.insert(module_name(line.text));
}

Expected<ModuleIndex> ModuleIndex::parse(const ModuleTexts& texts, const std::string& place) {
  ModuleIndex index;
  index.place_ = place;
  if (auto read = index.read_dep(texts.dep); !read) return tl::unexpected(read.error());
  if (auto read = index.read_alias(texts.alias); !read) return tl::unexpected(read.error());
  if (auto read = index.read_softdep(texts.softdep); !read) return tl::unexpected(read.error());
  index.read_builtin(texts.builtin);
  return index;
}

// Marked before its needs are walked: two modules that softly ask for each other must not go round for ever.
void ModuleIndex::visit(const std::string& name, Walk& walk) const {
  const auto found = modules_.find(name);
  if (found == modules_.end() || !walk.seen.insert(name).second) return;
  const Module& module = found->second;
  for (const std::string& needed : module.needs) visit(needed, walk);
  for (const std::string& wanted : module.before) visit(wanted, walk);
  walk.files.push_back(module.file);
  for (const std::string& wanted : module.behind) visit(wanted, walk);
}

Expected<std::vector<std::string>> ModuleIndex::load_order(const std::vector<std::string>& names) const {
  Walk walk;
  for (const std::string& asked : names) {
    const std::string name = module_name(asked);
    if (!modules_.contains(name) && !builtin_.contains(name))
      return fail(ErrorCode::kImageInput, "this kernel has no module \"" + name + "\", and it is not built in either", place_,
                  "take the full kernel (Debian's linux-image-amd64; the cloud one lacks most network drivers)");
    visit(name, walk);
  }
  return std::move(walk.files);
}

std::vector<std::string> ModuleIndex::modules_for(const std::string& modalias) const {
  std::vector<std::string> names;
  for (const Alias& alias : aliases_)
    if (modalias_matches(alias.pattern, modalias) && std::find(names.begin(), names.end(), alias.name) == names.end())
      names.push_back(alias.name);
  return names;
}

Expected<ModuleTexts> ModuleIndex::trimmed(const std::vector<std::string>& files) const {
  std::map<std::string, std::string> flat; // flat file -> name
  std::set<std::string> chosen;
  for (const std::string& file : files) {
    const std::string name = module_name(file);
    if (!chosen.insert(name).second)
      return fail(ErrorCode::kImageInput, "two modules are called \"" + name + "\", and the image has one folder", place_);
    flat.emplace(flat_name(file), name);
  }
  ModuleTexts texts;
  for (const auto& [file, name] : flat) {
    const Module& module = modules_.at(name);
    texts.dep += file + ":";
    for (auto needed = module.needs.rbegin(); needed != module.needs.rend(); ++needed)
      texts.dep += ' ' + std::string(flat_name(modules_.at(*needed).file));
    texts.dep += '\n';
    const std::string soft = softdep_words(" pre:", module.before, chosen) + softdep_words(" post:", module.behind, chosen);
    if (!soft.empty()) texts.softdep += "softdep " + name + soft + '\n';
  }
  std::set<std::string> aliases;
  for (const Alias& alias : aliases_)
    if (chosen.contains(alias.name) && is_network_alias(alias.pattern))
      aliases.insert("alias " + alias.pattern + ' ' + alias.name + '\n');
  for (const std::string& line : aliases) texts.alias += line;
  return texts;
}

} // namespace ductl::image
