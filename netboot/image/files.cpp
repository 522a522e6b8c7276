#include "netboot/image/files.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::image {
namespace {

bool write_all(int descriptor, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

} // namespace

Expected<std::string> read_file(const std::filesystem::path& file, const std::string& next) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(file, error);
  std::ifstream stream(file, std::ios::binary);
  if (!regular || !stream) {
    const char* cause = error ? std::strerror(error.value()) : regular ? std::strerror(errno) : "not a regular file";
    return fail(ErrorCode::kImageFile, fmt::format("cannot be opened: {}", cause), file.string(), next);
  }
  std::ostringstream contents;
  contents << stream.rdbuf();
  if (stream.bad()) return fail(ErrorCode::kImageFile, "cannot be read", file.string(), "look at the disk that holds it");
  return std::move(contents).str();
}

Expected<void> write_file(const std::filesystem::path& file, std::string_view contents) {
  const auto refuse = [&](int cause) {
    return fail(ErrorCode::kImageFile, fmt::format("cannot be written: {}", std::strerror(cause)), file.string(),
                "check that the folder can be written and that the disk is not full");
  };
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  std::string beside = file.string() + ".XXXXXX";
  const int descriptor = ::mkostemp(beside.data(), O_CLOEXEC);
  if (descriptor < 0) return refuse(errno);
  const bool written = ::fchmod(descriptor, 0644) == 0 && write_all(descriptor, contents);
  int cause = errno;
  const bool closed = ::close(descriptor) == 0;
  if (written && closed && ::rename(beside.c_str(), file.c_str()) == 0) return {};
  if (written) cause = errno;
  ::unlink(beside.c_str());
  return refuse(cause);
}

} // namespace ductl::image
