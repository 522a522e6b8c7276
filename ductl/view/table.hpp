// A table with aligned columns, for people. No I/O.
#pragma once

#include "ductl/view/style.hpp"

#include <string>
#include <vector>

namespace ductl::view {

struct Column {
  std::string title;
  bool right = false;     // numbers
  bool wide_only = false; // only with -o wide
};

struct Cell {
  Cell(const char* t) : text(t) {}
  Cell(std::string t, Style s = Style::Plain) : text(std::move(t)), style(s) {}
  std::string text;
  Style style = Style::Plain;
};

class Table {
public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row); // as many cells as there are columns
  // Title line and rows, each ended by a newline; no spaces at the ends of lines. Cells are made printable.
  [[nodiscard]] std::string text(bool wide, bool colour) const;

private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

} // namespace ductl::view
