#include "ductl/view/table.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ductl::view {

void Table::add(std::vector<Cell> row) {
  assert(row.size() == columns_.size());
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

std::string Table::text(bool wide, bool colour) const {
  constexpr int kGap = 2;
  std::vector<std::size_t> shown;
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].wide_only && !wide) continue;
    int width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c].text));
    shown.push_back(c), widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    int owed = 0; // spaces before the next cell that is not empty
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const Cell cell = cell_of(shown[i]);
      const int spare = widths[i] - display_width(cell.text);
      if (i > 0) owed += kGap;
      if (columns_[shown[i]].right) owed += spare;
      if (!cell.text.empty())
        text.append(static_cast<std::size_t>(std::exchange(owed, 0)), ' ').append(paint(cell.text, cell.style, colour));
      if (!columns_[shown[i]].right) owed += spare;
    }
    out += text + "\n";
  };
  line([&](std::size_t c) { return Cell(columns_[c].title, Style::Bold); });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
  return out;
}

} // namespace ductl::view
