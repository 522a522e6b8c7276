// Finds stop strings in a stream of text, wherever the pieces are cut.
//
// Text that may yet turn out to be the beginning of a stop string is held back, and nothing more than that. The first stop
// string to be complete ends the text; it and what follows it are dropped. If two are complete at the same byte, the longer
// one wins, so that the least text is left. The result does not depend on how the text was cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ductl::engine {

class StopMatcher {
public:
  struct Result {
    std::string text;     // safe to show
    bool stopped = false; // a stop string is complete; later pushes give nothing
  };

  explicit StopMatcher(std::vector<std::string> stops); // empty strings are ignored
  [[nodiscard]] Result push(std::string_view text);
  [[nodiscard]] std::string flush(); // the end without a stop string: what was held

private:
  [[nodiscard]] std::size_t hold_from(std::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

} // namespace ductl::engine
