#include "agent/client/api_keys.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sys/stat.h>

namespace ductl::agent {
namespace {

constexpr std::size_t kKeysMax = 256, kLineMax = 512;

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

} // namespace

Expected<std::vector<std::string>> load_api_keys(const std::filesystem::path& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    if (errno == ENOENT) return std::vector<std::string>{};
    return fail(ErrorCode::kState, fmt::format("the API keys cannot be read: {}", std::strerror(errno)), file.string());
  }
  if ((facts.st_mode & 077) != 0)
    return fail(ErrorCode::kState, "others may read the API keys", file.string(), "chmod 600 " + file.string());
  std::ifstream in(file);
  if (!in) return fail(ErrorCode::kState, "the API keys cannot be read", file.string(), "check the rights of the file");
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
