// Progress of a command that goes through stages (`up`, `down`).
//
// On a terminal: one live line a stage, repainted in place, with counters and bytes; a finished stage's line stays.
// Off a terminal: one plain line with the time per transition (a stage begins, ends or fails), no control characters.
// No I/O and no clock: every call returns what to write to the stream, "" when nothing changes.
#pragma once

#include "ductl/view/style.hpp"
#include "inventory/clock.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ductl::view {

enum class StageState { Running, Done, Failed };

struct StageProgress {
  std::string stage; // "filling"; the key: one line for each
  StageState state = StageState::Running;
  int done = 0, total = 0;                  // ducks, tensors, ...; total 0 = no counter
  std::uint64_t bytes = 0, bytes_total = 0; // bytes_total 0 = no byte counter
  std::string detail;                       // "duck03", "sends nothing: all slices are held"; short
};

// The two clocks of one moment, read by the loop.
struct Moment {
  Instant now;
  std::chrono::system_clock::time_point wall;
};

class ProgressPainter {
public:
  ProgressPainter(bool live, bool colour, int columns) : live_(live), colour_(colour), columns_(columns) {}

  [[nodiscard]] std::string update(const StageProgress& progress, const Moment& moment);
  // Ends all live lines where they are (before an error is printed, or at the end).
  [[nodiscard]] std::string close();

private:
  struct Line {
    StageProgress progress;
    Instant began, painted;
  };
  [[nodiscard]] std::string line_text(const Line& line, Instant now) const;
  [[nodiscard]] std::string erase() const;      // the live block
  [[nodiscard]] std::string block(Instant now); // the live block again
  [[nodiscard]] std::string plain(const Line& line, const Moment& moment) const;

  bool live_, colour_;
  int columns_;
  std::vector<Line> lines_; // running stages, in order of their beginning
  int painted_lines_ = 0;
};

} // namespace ductl::view
