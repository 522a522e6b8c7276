// Lines that a person types (libedit: editing, history, UTF-8) or that come through a pipe.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace ductl::commands {

enum class LineEvent { Line, Interrupted /* Ctrl-C */, End /* Ctrl-D, end of input */ };

class LineReader {
public:
  virtual ~LineReader() = default;
  // Blocks. The terminal is in its ordinary mode again when this returns, whatever happens.
  [[nodiscard]] virtual LineEvent read(std::string& line) = 0;
};

// On a terminal. The history is kept in `history_file` (0600) up to kHistoryMax lines; a file that cannot be used is an error.
// Needs an InterruptWatch with SecondSignal::Ignored around every read().
inline constexpr int kHistoryMax = 1000;
[[nodiscard]] Expected<std::unique_ptr<LineReader>> make_terminal_reader(const std::string& prompt,
                                                                         const std::filesystem::path& history_file);
// Off a terminal: stdin, line by line, no prompt.
[[nodiscard]] std::unique_ptr<LineReader> make_plain_reader();

} // namespace ductl::commands
