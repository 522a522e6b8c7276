#include "weights/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::weights {

namespace {

constexpr const char* kNext = "check that the folder can be written and that the disk is not full";

tl::unexpected<Error> refuse(const char* what, const std::filesystem::path& file) {
  return fail(ErrorCode::kState, fmt::format("{}: {}", what, std::strerror(errno)), file.string(), kNext);
}

bool write_all(int descriptor, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return; // the rename itself has happened; only its durability is left to chance
  ::fsync(descriptor);
  ::close(descriptor);
}

} // namespace

Expected<std::string> read_whole_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return refuse("cannot be opened", file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) return refuse("cannot be read", file);
  return std::move(text).str();
}

Expected<void> replace_whole_file(const std::filesystem::path& file, std::string_view contents) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  std::string beside = file.string() + ".XXXXXX";
  const int descriptor = ::mkostemp(beside.data(), O_CLOEXEC);
  if (descriptor < 0) return refuse("cannot be created", file);
  const bool written = ::fchmod(descriptor, 0644) == 0 && write_all(descriptor, contents) && ::fsync(descriptor) == 0;
  const int cause = errno;
  if (::close(descriptor) == 0 && written && ::rename(beside.c_str(), file.c_str()) == 0) {
    sync_folder(file.parent_path());
    return {};
  }
  if (!written) errno = cause;
  auto refused = refuse("cannot be written", file);
  ::unlink(beside.c_str());
  return refused;
}

} // namespace ductl::weights
