// Collects the faults of one inventory file: where, what, and the offending line with a caret.
#pragma once

#include "inventory/inventory.hpp"

#include <cstddef>

namespace ductl::inventory {

// A stretch of one line of the file.
struct Mark {
  std::size_t line = 1, column = 1; // from 1, in bytes
  std::size_t length = 1;
  std::string line_text;
};

class FaultLog {
public:
  explicit FaultLog(std::string file_name) : file_name_(std::move(file_name)) {}

  // `label` stands at the caret, `next` is the help line.
  void add(ErrorCode code, const Mark& mark, std::string message, std::string_view label = {}, std::string next = {});
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // In the file's order. Beyond kFaultsMax the rest is counted in a last one.
  [[nodiscard]] Faults take();

  static constexpr std::size_t kFaultsMax = 100;

private:
  struct Entry {
    std::size_t line, column;
    Error error;
  };
  std::string file_name_;
  std::vector<Entry> entries_;
  std::size_t left_out_ = 0;
};

// "   |\n41 | mac = ...\n   |       ^^^ label"; long lines are cut around the mark, control characters replaced.
[[nodiscard]] std::string window_text(const Mark& mark, std::string_view label);
// "label" of such a text; "" where there is none.
[[nodiscard]] std::string window_label(std::string_view window);

} // namespace ductl::inventory
