#include "netboot/boot_file.hpp"

#include "netboot/descriptor.hpp"

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::netboot {
namespace {

constexpr std::size_t kFileBytesMax = 512u << 20;

tl::unexpected<Error> failed(const std::string& what, const std::string& place) {
  return fail(ErrorCode::kBootFile, fmt::format("{}: {}", what, std::strerror(errno)), place,
              "check that the image was built, that this user may read it, and that memory is left");
}

std::string sha256_of(ByteView bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

// All of `into`, or false.
bool read_whole(int from, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(from, into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO; // shorter than it was a moment ago
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

} // namespace

BootFile::~BootFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Expected<void> BootFile::fill(std::size_t size, const std::function<bool(std::span<std::byte>)>& read, const std::string& place) {
  descriptor_ = ::memfd_create("ductl-boot-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    return failed("no memory for a boot file", place);
  if (size != 0) {
    void* writable = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (writable == MAP_FAILED) return failed("no memory for a boot file", place);
    const bool whole = read({static_cast<std::byte*>(writable), size});
    const int reason = errno;
    ::munmap(writable, size);
    errno = reason;
    if (!whole) return failed("cannot be read", place);
  }
  if (::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("a boot file cannot be sealed", place);
  if (size != 0) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) return failed("no memory for a boot file", place);
    bytes_ = {static_cast<const std::byte*>(mapped), size};
  }
  sha256_ = sha256_of(bytes_);
  return {};
}

Expected<std::shared_ptr<const BootFile>> BootFile::from_bytes(ByteView bytes) {
  std::shared_ptr<BootFile> file(new BootFile());
  const auto copy = [&](std::span<std::byte> into) {
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return true;
  };
  if (auto filled = file->fill(bytes.size(), copy, "boot files"); !filled) return tl::unexpected(filled.error());
  return file;
}

Expected<std::shared_ptr<const BootFile>> BootFile::from_disk(const std::filesystem::path& path) {
  const Descriptor from(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!from.open() || ::fstat(from.get(), &about) != 0) return failed("cannot be opened", path.string());
  if (!S_ISREG(about.st_mode) || static_cast<std::size_t>(about.st_size) > kFileBytesMax)
    return fail(ErrorCode::kBootFile, fmt::format("is no file of at most {} MiB", kFileBytesMax >> 20), path.string(),
                "a boot file is a kernel, an initrd, a UKI or a loader");
  std::shared_ptr<BootFile> file(new BootFile());
  const auto read = [&](std::span<std::byte> into) { return read_whole(from.get(), into); };
  if (auto filled = file->fill(static_cast<std::size_t>(about.st_size), read, path.string()); !filled)
    return tl::unexpected(filled.error());
  return file;
}

void BootFiles::add(const std::string& name, std::shared_ptr<const BootFile> file) {
  assert(file != nullptr);
  files_[fmt::format("sha256/{}/{}", file->sha256(), name)] = file;
  files_[name] = std::move(file);
}

std::shared_ptr<const BootFile> BootFiles::find(std::string_view name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? nullptr : found->second;
}

std::string BootFiles::hashed_name(const std::string& name) const {
  return fmt::format("sha256/{}/{}", files_.at(name)->sha256(), name);
}

std::string_view content_type(std::string_view name) {
  if (name.ends_with(".efi")) return "application/efi";
  return name.ends_with(".ipxe") ? "text/plain" : "application/octet-stream";
}

} // namespace ductl::netboot
