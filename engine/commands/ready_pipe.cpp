#include "engine/commands/ready_pipe.hpp"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace ductl::engine {

std::string ready_line(std::uint16_t api_port) { return nlohmann::json{{"ready", true}, {"api_port", api_port}}.dump() + "\n"; }

std::string not_ready_line(const Error& error) {
  const nlohmann::json line = {
      {"ready", false},
      {"error", {{"code", error.code_name()}, {"message", error.message}, {"place", error.place}, {"next", error.next}}}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

ReadyPipe::~ReadyPipe() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ReadyPipe::say(const std::string& line) {
  if (descriptor_ < 0) return;
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t got = ::write(descriptor_, line.data() + written, line.size() - written);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break; // the waiter is gone; it can't be told
    written += static_cast<std::size_t>(got);
  }
  ::close(std::exchange(descriptor_, -1));
}

} // namespace ductl::engine
