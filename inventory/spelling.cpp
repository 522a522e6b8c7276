#include "inventory/spelling.hpp"

#include <algorithm>
#include <vector>

namespace ductl::inventory {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> two_back(columns), back(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j) back[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < columns; ++j) {
      const int replace = back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[columns - 1];
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kWordMax = 64; // longer ones are no typing slip, and the distance is quadratic
  constexpr int kEditsMax = 2;
  constexpr std::size_t kBeginningMin = 4;
  if (word.size() > kWordMax) return {};
  std::string best;
  int best_distance = kEditsMax + 1;
  for (const std::string& candidate : known) {
    const int distance = edit_distance(word, candidate);
    // Three letters with two edits are another word.
    const bool near = distance <= kEditsMax && distance * 2 < static_cast<int>(std::max(word.size(), candidate.size()));
    if (near && distance < best_distance) best = candidate, best_distance = distance;
  }
  if (!best.empty()) return best;
  for (const std::string& candidate : known) {
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (shorter >= kBeginningMin && word.substr(0, shorter) == std::string_view(candidate).substr(0, shorter)) return candidate;
  }
  return {};
}

} // namespace ductl::inventory
