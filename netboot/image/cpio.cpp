#include "netboot/image/cpio.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace ductl::image {
namespace {

constexpr std::string_view kMagic = "070701";
constexpr std::string_view kTrailer = "TRAILER!!!";
constexpr std::size_t kAlignment = 4;
// The kernel skips, without a word, an entry whose name (with its NUL, rounded up to 4) does not fit in PATH_MAX.
constexpr std::size_t kPathBytesMax = 4096 - kAlignment;
constexpr std::size_t kFileBytesMax = 0xffffffff; // eight hexadecimal digits

tl::unexpected<Error> refuse(const CpioEntry& entry, const std::string& why) {
  return fail(ErrorCode::kImageInput, fmt::format("\"{}\" cannot go into the initramfs: {}", entry.path, why));
}

bool has_plain_components(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") return false;
    begin = end + 1;
  }
  return true;
}

Expected<void> check_entry(const CpioEntry& entry) {
  const std::uint32_t type = entry.mode & S_IFMT;
  const bool device = type == S_IFCHR || type == S_IFBLK;
  if (!has_plain_components(entry.path) || entry.path.find('\0') != std::string::npos)
    return refuse(entry, "its path is not one of plain names joined by single slashes");
  if (entry.path == kTrailer) return refuse(entry, "this name ends an archive");
  if (entry.path.size() >= kPathBytesMax) return refuse(entry, fmt::format("its path has {} bytes", entry.path.size()));
  if (type != S_IFREG && type != S_IFLNK && type != S_IFDIR && !device)
    return refuse(entry, fmt::format("mode {:o} is no file, folder, symlink or device", entry.mode));
  if (type == S_IFLNK && (entry.data.empty() || entry.data.size() >= kPathBytesMax))
    return refuse(entry, fmt::format("its target has {} bytes", entry.data.size()));
  if ((type == S_IFDIR || device) && !entry.data.empty()) return refuse(entry, "only files and symlinks have contents");
  if (!device && (entry.device_major != 0 || entry.device_minor != 0)) return refuse(entry, "only devices have device numbers");
  if (entry.data.size() > kFileBytesMax) return refuse(entry, "it is larger than 4 GiB");
  return {};
}

// The kernel makes no missing folders: it would drop the file.
Expected<void> check_tree(const std::vector<CpioEntry>& sorted) {
  std::set<std::string_view> folders;
  const CpioEntry* before = nullptr;
  for (const CpioEntry& entry : sorted) {
    if (before != nullptr && before->path == entry.path) return refuse(entry, "it is there twice");
    before = &entry;
    const std::size_t slash = entry.path.rfind('/');
    const std::string_view folder = std::string_view(entry.path).substr(0, slash == std::string::npos ? 0 : slash);
    if (!folder.empty() && !folders.contains(folder)) return refuse(entry, "its folder is not in the archive");
    if ((entry.mode & S_IFMT) == S_IFDIR) folders.insert(entry.path);
  }
  return {};
}

void pad(std::string& out) { out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment, '\0'); }

void append(std::string& out, const CpioEntry& entry, std::uint32_t inode) {
  const std::uint32_t links = (entry.mode & S_IFMT) == S_IFDIR ? 2 : 1;
  const std::uint32_t fields[] = {inode,
                                  entry.mode,
                                  0, // user
                                  0, // group
                                  links,
                                  0, // time
                                  static_cast<std::uint32_t>(entry.data.size()),
                                  0, // device that holds the file
                                  0,
                                  entry.device_major,
                                  entry.device_minor,
                                  static_cast<std::uint32_t>(entry.path.size() + 1),
                                  0}; // checksum, of the "crc" form only
  out += kMagic;
  for (const std::uint32_t field : fields) out += fmt::format("{:08x}", field);
  out += entry.path;
  out += '\0';
  pad(out);
  out += entry.data;
  pad(out);
}

} // namespace

CpioEntry cpio_folder(std::string path) { return {std::move(path), S_IFDIR | 0755, {}, 0, 0}; }
CpioEntry cpio_file(std::string path, std::string data) { return {std::move(path), S_IFREG | 0644, std::move(data), 0, 0}; }
CpioEntry cpio_program(std::string path, std::string data) { return {std::move(path), S_IFREG | 0755, std::move(data), 0, 0}; }
CpioEntry cpio_symlink(std::string path, std::string target) {
  return {std::move(path), S_IFLNK | 0777, std::move(target), 0, 0};
}
CpioEntry cpio_character_device(std::string path, std::uint32_t major, std::uint32_t minor) {
  return {std::move(path), S_IFCHR | 0600, {}, major, minor};
}

Expected<std::string> write_cpio(std::vector<CpioEntry> entries) {
  // By bytes: a folder's name is a prefix of what lies in it, so it comes first.
  std::sort(entries.begin(), entries.end(), [](const CpioEntry& a, const CpioEntry& b) { return a.path < b.path; });
  for (const CpioEntry& entry : entries)
    if (auto good = check_entry(entry); !good) return tl::unexpected(good.error());
  if (auto good = check_tree(entries); !good) return tl::unexpected(good.error());
  std::string out;
  std::uint32_t inode = 0;
  for (const CpioEntry& entry : entries) append(out, entry, ++inode);
  append(out, {std::string(kTrailer), 0, {}, 0, 0}, 0);
  return out;
}

} // namespace ductl::image
