#include "agent/client/flock_key.hpp"

#include "agent/client/secret_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ductl::agent {

namespace {

constexpr std::size_t kKeyDigits = 64;
constexpr Secret kSecret{"the flock key", 4096, "make a new one: stop the flock, remove the file, and start it again"};

tl::unexpected<Error> state_error(std::string message, const std::string& place, std::string next) {
  return fail(ErrorCode::kState, std::move(message), place, std::move(next));
}

Expected<std::string> parse_key(std::string text, const std::string& place) {
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
  auto text = read_secret_file(file, kSecret);
  if (!text) return tl::unexpected(text.error());
  if (!*text) return state_error("there is no flock key", file.string(), "start the flock with ductl up");
  return parse_key(std::move(**text), file.string());
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
  const std::string place = fmt::format("descriptor {}", descriptor);
  auto text = read_secret(fd.get(), place, kSecret);
  if (!text) return text;
  return parse_key(std::move(*text), place);
}

} // namespace ductl::agent
