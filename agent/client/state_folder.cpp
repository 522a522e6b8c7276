#include "agent/client/state_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace ductl::agent {

namespace {

std::filesystem::path home_folder() {
  if (const char* home = std::getenv("HOME"); home && *home == '/') return home;
  const passwd* user = ::getpwuid(::getuid()); // a service without HOME
  return user && user->pw_dir ? user->pw_dir : "/";
}

// The XDG rule: a relative value counts as none.
std::filesystem::path xdg_folder(const char* variable, const char* under_home) {
  if (const char* value = std::getenv(variable); value && *value == '/') return value;
  return home_folder() / under_home;
}

} // namespace

StateFolder state_folder(const std::string& flock) { return {xdg_folder("XDG_STATE_HOME", ".local/state") / "ductl" / flock}; }

std::filesystem::path cache_folder() { return xdg_folder("XDG_CACHE_HOME", ".cache") / "ductl"; }

Expected<void> check_state_folder(const StateFolder& folder) {
  for (const auto& path : {folder.root, folder.root / "run"}) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int cause = fd < 0 ? errno : 0;
    if (fd >= 0) ::close(fd);
    if (cause != 0 && cause != ENOENT)
      return fail(ErrorCode::kState, fmt::format("the state folder cannot be looked into: {}", std::strerror(cause)), path,
                  "make it readable for you, or set XDG_STATE_HOME to a folder that is");
  }
  return {};
}

Expected<void> make_state_folder(const StateFolder& folder) {
  for (const auto& path : {folder.root, folder.root / "log", folder.root / "run"}) {
    std::error_code ec;
    std::filesystem::create_directories(path, ec);
    if (!ec && ::chmod(path.c_str(), 0700) != 0) ec.assign(errno, std::generic_category());
    if (ec)
      return fail(ErrorCode::kState, fmt::format("the state folder cannot be made: {}", ec.message()), path,
                  "make it writable for you, or set XDG_STATE_HOME to a folder that is");
  }
  return {};
}

} // namespace ductl::agent
