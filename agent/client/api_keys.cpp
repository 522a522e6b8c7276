#include "agent/client/api_keys.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::agent {
namespace {

constexpr std::size_t kKeysMax = 256, kLineMax = 512;
constexpr std::size_t kFileBytesMax = 1 << 20; // comments and all

class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

private:
  int fd_;
};

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

tl::unexpected<Error> unreadable(const std::filesystem::path& file, int cause) {
  return fail(ErrorCode::kState, fmt::format("the API keys cannot be read: {}", std::strerror(cause)), file.string(),
              cause == ELOOP
                  ? "put the file itself there instead of the link"
                  : fmt::format("make {} a file of yours: chmod 600, chown to the user who runs ductl", file.string()));
}

// The file is checked by its descriptor: what is read is what was checked.
Expected<std::string> read_private_file(int fd, const std::filesystem::path& file) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return unreadable(file, errno);
  if (!S_ISREG(facts.st_mode))
    return fail(ErrorCode::kState, "the API keys are not a regular file", file.string(), "remove it, and make a file of keys");
  if ((facts.st_mode & 077) != 0)
    return fail(ErrorCode::kState, "others may read the API keys", file.string(), "chmod 600 " + file.string());
  std::string text;
  for (char part[4096]; text.size() <= kFileBytesMax;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(file, errno);
    if (got == 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
  return fail(ErrorCode::kState, "the file of API keys is larger than 1 MiB", file.string(), "one key a line; take the rest out");
}

} // namespace

Expected<std::vector<std::string>> load_api_keys(const std::filesystem::path& file) {
  // A FIFO must not make the open wait.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return std::vector<std::string>{};
  if (fd.get() < 0) return unreadable(file, errno);
  const auto text = read_private_file(fd.get(), file);
  if (!text) return tl::unexpected(text.error());
  std::istringstream in(*text);
  std::vector<std::string> keys;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string key = trimmed(line.substr(0, line.find('#')));
    if (key.empty()) continue;
    // The key itself stays out of the message.
    if (key.size() < kApiKeyCharacters || key.size() > kLineMax || key.find_first_of(" \t") != std::string::npos ||
        keys.size() == kKeysMax)
      return fail(
          ErrorCode::kState,
          fmt::format("no usable key: {} characters or more, without spaces, at most {} keys", kApiKeyCharacters, kKeysMax),
          fmt::format("{}:{}", file.string(), number), "make one with: openssl rand -base64 24");
    keys.push_back(key);
  }
  if (keys.empty())
    return fail(ErrorCode::kState, "there is no key in the file of API keys", file.string(), "add one, or remove the file");
  return keys;
}

std::string own_api_key(const std::filesystem::path& file) {
  if (const char* key = std::getenv("DUCTL_API_KEY")) return key;
  const auto keys = load_api_keys(file);
  return keys && !keys->empty() ? keys->front() : std::string();
}

} // namespace ductl::agent
