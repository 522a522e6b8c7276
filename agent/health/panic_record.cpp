#include "agent/health/panic_record.hpp"

#include <algorithm>

namespace ductl::agent::health {
namespace {

constexpr const char* kRecords = "sys/fs/pstore";
constexpr std::size_t kLineMax = 200;

} // namespace

std::optional<std::string> take_panic_record(const MachineFiles& files) {
  if (!files.exists(kRecords) || files.line("sys/module/pstore/parameters/backend").value_or("(null)") == "(null)")
    return std::nullopt;
  std::string found;
  for (const std::string& name : files.names(kRecords)) {
    const std::string path = std::string(kRecords) + "/" + name, text = files.text(path).value_or("");
    const std::size_t at = text.find("Kernel panic");
    if (at != std::string::npos && found.empty()) found = text.substr(at, std::min(text.find('\n', at) - at, kLineMax));
    files.remove(path);
  }
  return found;
}

} // namespace ductl::agent::health
