#include "agent/client/api_keys.hpp"

#include "agent/client/secret_file.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>

namespace ductl::agent {
namespace {

constexpr std::size_t kKeysMax = 256, kLineMax = 512;
constexpr Secret kSecret{"the API keys", 1 << 20, "chmod 600 the file, and think of the keys in it as known"};

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

} // namespace

Expected<std::vector<std::string>> load_api_keys(const std::filesystem::path& file) {
  const auto text = read_secret_file(file, kSecret);
  if (!text) return tl::unexpected(text.error());
  if (!*text) return std::vector<std::string>{};
  std::istringstream in(**text);
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
