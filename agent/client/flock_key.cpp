#include "agent/client/flock_key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ductl::agent {

namespace {

constexpr std::size_t kKeyDigits = 64;

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

tl::unexpected<Error> state_error(std::string message, const std::string& place, std::string next) {
  return fail(ErrorCode::kState, std::move(message), place, std::move(next));
}

// Reads to the end; a key is short, so anything longer is none.
Expected<std::string> read_key(int fd, const std::string& place) {
  std::string text;
  std::array<char, 256> bytes;
  while (text.size() <= kKeyDigits + 1) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return state_error(fmt::format("the flock key cannot be read: {}", std::strerror(errno)), place,
                         "stop the flock, remove the file, and start it again: a new key is made");
    if (got == 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const bool hex = std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != kKeyDigits || !hex)
    return state_error(fmt::format("this is no flock key: {} lower-case hex digits are expected", kKeyDigits), place,
                       "stop the flock, remove the file, and start it again: a new key is made");
  return text;
}

Expected<std::string> new_key() {
  std::array<unsigned char, kKeyDigits / 2> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return fail(ErrorCode::kInternal, "the system gives no random bytes for a flock key", {},
                "is /dev/urandom there? then run `ductl up` again");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// The file appears whole or not at all; when two make it at once, the first one's stays and both use it.
Expected<void> create_key_file(const std::filesystem::path& file, const std::string& key) {
  std::string temporary = file.string() + ".XXXXXX";
  const Descriptor fd(::mkostemp(temporary.data(), O_CLOEXEC)); // exclusive, 0600
  const auto error = [&](const char* what) {
    const std::string cause = std::strerror(errno);
    if (fd.get() >= 0) ::unlink(temporary.c_str());
    return state_error(fmt::format("the flock key cannot be {}: {}", what, cause), file,
                       "check that its folder is writable for you");
  };
  if (fd.get() < 0) return error("made");
  const std::string line = key + "\n";
  if (::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) || ::fsync(fd.get()) != 0)
    return error("written");
  if (::link(temporary.c_str(), file.c_str()) != 0 && errno != EEXIST) return error("put in place");
  ::unlink(temporary.c_str());
  return {};
}

} // namespace

Expected<std::string> load_flock_key(const std::filesystem::path& file) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0)
    return state_error(fmt::format("the flock key cannot be opened: {}", std::strerror(errno)), file,
                       "start the flock with ductl up");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return state_error("the flock key is not a regular file", file, "remove it");
  if ((info.st_mode & 077) != 0)
    return state_error(fmt::format("the flock key may be read by others (mode {:04o})", info.st_mode & 07777), file,
                       "make a new one: stop the flock, remove the file, and start it again");
  return read_key(fd.get(), file);
}

Expected<std::string> obtain_flock_key(const std::filesystem::path& file) {
  std::error_code ec;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ec))) {
    const auto key = new_key();
    if (!key) return key;
    if (auto made = create_key_file(file, *key); !made) return tl::unexpected(made.error());
  }
  return load_flock_key(file);
}

Expected<std::string> read_flock_key(int descriptor) {
  const Descriptor fd(descriptor);
  return read_key(fd.get(), fmt::format("descriptor {}", descriptor));
}

} // namespace ductl::agent
