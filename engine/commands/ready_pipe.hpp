// The one line that tells whoever started the engine how it went: {"ready":true,"api_port":N} or {"ready":false,"error":{...}}.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <string>

namespace ductl::engine {

[[nodiscard]] std::string ready_line(std::uint16_t api_port);
[[nodiscard]] std::string not_ready_line(const Error& error);

// Owns the descriptor; -1 = nobody waits. The line is written once, then the descriptor is closed.
class ReadyPipe {
public:
  explicit ReadyPipe(int descriptor) : descriptor_(descriptor) {}
  ~ReadyPipe();
  ReadyPipe(const ReadyPipe&) = delete;
  ReadyPipe& operator=(const ReadyPipe&) = delete;
  void say(const std::string& line);

private:
  int descriptor_;
};

} // namespace ductl::engine
