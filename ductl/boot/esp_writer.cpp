#include "ductl/boot/esp_writer.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace ductl::boot {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoader = "EFI/BOOT/BOOTX64.EFI"; // what firmware looks for on a disk that no boot entry names
constexpr std::string_view kOurMark = "ID=duck\n";      // of every image's .osrel

std::string file_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool is_fat(const fs::path& folder) {
  struct statfs about {};
  return ::statfs(folder.c_str(), &about) == 0 && about.f_type == MSDOS_SUPER_MAGIC;
}

tl::unexpected<Error> not_written(const fs::path& file, int reason) {
  return fail(ErrorCode::kOutput, fmt::format("the image could not be written: {}", std::strerror(reason)), file.string(),
              reason == ENOSPC ? "it needs room for two copies while it is replaced: a partition of 64 MB has it"
                               : "is the partition mounted, and writable for this user?");
}

Expected<void> write_synced(const fs::path& file, std::string_view bytes) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return not_written(file, errno);
  int fault = 0;
  while (!bytes.empty() && fault == 0) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) fault = errno;
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  if (fault == 0 && ::fsync(fd) != 0) fault = errno;
  ::close(fd);
  if (fault == 0) return {};
  std::error_code ignored;
  fs::remove(file, ignored);
  return not_written(file, fault);
}

// A renamed file is there for good once its folder is.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

} // namespace

Expected<EspFile> write_esp(const DuckImage& image, const fs::path& folder, bool replace_foreign) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return fail(ErrorCode::kUsage, "there is no such folder", folder.string(),
                "mount the EFI system partition and name the folder: mount /dev/sdX1 /mnt");
  const std::string bytes = file_text(image.folder / "duck.efi");
  if (const auto listed = image.manifest.files.find("duck.efi");
      listed == image.manifest.files.end() || image::digest_of(bytes).sha256 != listed->second.sha256)
    return fail(ErrorCode::kBootFile, "duck.efi is not the file that the image's manifest names", image.folder.string(),
                "make it anew: `ninja -C build duck-image`");
  EspFile result{.file = folder / kLoader, .fat = is_fat(folder)};
  const std::string before = file_text(result.file);
  if (before == bytes) return result;
  result.foreign = !before.empty() && before.find(kOurMark) == std::string::npos;
  if (result.foreign && !replace_foreign)
    return fail(ErrorCode::kNotConfirmed, "another system's loader is there", result.file.string(),
                "this disk would start ducks from then on; --yes replaces it");
  fs::create_directories(result.file.parent_path(), error);
  if (error) return not_written(result.file, error.value());
  const fs::path part = result.file.parent_path() / "DUCK.NEW";
  if (auto written = write_synced(part, bytes); !written) return tl::unexpected(written.error());
  fs::rename(part, result.file, error);
  if (error) return not_written(result.file, error.value());
  sync_folder(result.file.parent_path());
  result.changed = true;
  return result;
}

} // namespace ductl::boot
