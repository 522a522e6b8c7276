#include "ductl/view/progress.hpp"

#include "ductl/view/format.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::view {
namespace {

constexpr std::chrono::milliseconds kRepaintEvery{80};
constexpr int kStageWidth = 12;

// "12/32  1.2 GiB of 6.1 GiB  detail"
std::string counters(const StageProgress& progress) {
  std::vector<std::string> parts;
  if (progress.total > 0) parts.push_back(fmt::format("{}/{}", progress.done, progress.total));
  if (progress.bytes_total > 0)
    parts.push_back(fmt::format("{} of {}", bytes_text(progress.bytes), bytes_text(progress.bytes_total)));
  else if (progress.bytes > 0)
    parts.push_back(bytes_text(progress.bytes));
  if (!progress.detail.empty()) parts.push_back(printable(progress.detail));
  return fmt::format("{}", fmt::join(parts, "  "));
}

const char* state_word(StageState state) {
  switch (state) {
  case StageState::Running: return "begins";
  case StageState::Done: return "done";
  case StageState::Failed: return "failed";
  }
  return "";
}

} // namespace

std::string ProgressPainter::line_text(const Line& line, Instant now) const {
  const StageProgress& progress = line.progress;
  const char* sign = progress.state == StageState::Running ? "•" : progress.state == StageState::Done ? "✓" : "✗";
  const Style style = progress.state == StageState::Running ? Style::Cyan
                      : progress.state == StageState::Done  ? Style::Green
                                                            : Style::Red;
  std::string name = printable(progress.stage);
  const int spare = std::max(0, kStageWidth - display_width(name));
  name.append(static_cast<std::size_t>(spare), ' ');
  const std::string rest = fmt::format(" {} {}  {}", name, counters(progress), duration_text(now - line.began));
  // One cell is left free: a full line would wrap and the block would no longer be as high as it was counted.
  return paint(sign, style, colour_) + cut(rest, std::max(1, columns_ - 2));
}

std::string ProgressPainter::erase() const {
  std::string out;
  if (painted_lines_ > 1) out += fmt::format("\x1b[{}A", painted_lines_ - 1);
  if (painted_lines_ > 0) out += "\r\x1b[J";
  return out;
}

std::string ProgressPainter::block(Instant now) {
  std::string out;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    out += (i > 0 ? "\n" : "") + line_text(lines_[i], now);
    lines_[i].painted = now;
  }
  painted_lines_ = static_cast<int>(lines_.size());
  return out;
}

std::string ProgressPainter::plain(const Line& line, const Moment& moment) const {
  const StageProgress& progress = line.progress;
  std::string text = fmt::format("{} {}: {}", clock_text(moment.wall), printable(progress.stage), state_word(progress.state));
  if (const std::string rest = counters(progress); !rest.empty()) text += "  " + rest;
  if (progress.state != StageState::Running) text += "  in " + duration_text(moment.now - line.began);
  return text + "\n";
}

std::string ProgressPainter::update(const StageProgress& progress, const Moment& moment) {
  auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.progress.stage == progress.stage; });
  const bool begins = line == lines_.end();
  if (begins) line = lines_.insert(lines_.end(), {progress, moment.now, moment.now});
  line->progress = progress;
  const bool ends = progress.state != StageState::Running;
  std::string out;
  if (!live_) {
    if (begins || ends) out = plain(*line, moment);
    if (ends) lines_.erase(line);
    return out;
  }
  if (!begins && !ends && moment.now - line->painted < kRepaintEvery) return {};
  out = erase();
  if (ends) {
    out += line_text(*line, moment.now) + "\n";
    lines_.erase(line);
  }
  return out + block(moment.now);
}

std::string ProgressPainter::close() {
  const bool open = live_ && painted_lines_ > 0;
  lines_.clear();
  painted_lines_ = 0;
  return open ? "\n" : "";
}

} // namespace ductl::view
