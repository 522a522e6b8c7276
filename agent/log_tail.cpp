#include "agent/log_tail.hpp"

#include <algorithm>
#include <fstream>

namespace ductl::agent {

Expected<std::string> log_tail(const std::filesystem::path& file, std::size_t bytes_max) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in)
    return fail(ErrorCode::kState, "the log cannot be read", file,
                "is the file there, and may the agent read it? restarting the agent makes it anew");
  const auto size = static_cast<std::size_t>(in.tellg());
  const std::size_t take = std::min(size, bytes_max);
  const bool cut = take < size;
  // One byte more tells whether the cut fell on a line's start.
  std::string text(take + (cut ? 1 : 0), '\0');
  in.seekg(static_cast<std::streamoff>(size - text.size()));
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (cut) {
    const std::size_t end_of_line = text.find('\n');
    text.erase(0, end_of_line == std::string::npos ? text.size() : end_of_line + 1);
  }
  return text;
}

} // namespace ductl::agent
