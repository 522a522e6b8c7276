#include "agent/client/secret_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::agent {
namespace {

tl::unexpected<Error> unreadable(const Secret& secret, const std::string& place, int cause) {
  return fail(ErrorCode::kState, fmt::format("{} cannot be read: {}", secret.what, std::strerror(cause)), place,
              cause == ELOOP ? "put the file itself there instead of the link"
                             : fmt::format("make {} a file of yours: chmod 600, chown to the user who runs ductl", place));
}

} // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<std::string> read_secret(int fd, const std::string& place, const Secret& secret) {
  std::string text;
  for (char part[4096]; text.size() <= secret.bytes_max;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(secret, place, errno);
    if (got == 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
  return fail(ErrorCode::kState, fmt::format("the file of {} is larger than {} bytes", secret.what, secret.bytes_max), place,
              "is it another file? put the right one there");
}

Expected<std::optional<std::string>> read_secret_file(const std::filesystem::path& file, const Secret& secret) {
  // A FIFO must not make the open wait.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat facts {};
  if (fd.get() < 0 || ::fstat(fd.get(), &facts) != 0) return unreadable(secret, file.string(), errno);
  if (!S_ISREG(facts.st_mode))
    return fail(ErrorCode::kState, fmt::format("where {} should be is not a regular file", secret.what), file.string(),
                "remove it");
  if ((facts.st_mode & 077) != 0)
    return fail(ErrorCode::kState, fmt::format("others may read {} (mode {:04o})", secret.what, facts.st_mode & 07777),
                file.string(), std::string(secret.when_exposed));
  auto text = read_secret(fd.get(), file.string(), secret);
  if (!text) return tl::unexpected(text.error());
  return std::move(*text);
}

} // namespace ductl::agent
