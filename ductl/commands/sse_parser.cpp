#include "ductl/commands/sse_parser.hpp"

#include <utility>

namespace ductl::commands {

bool SseParser::feed(std::string_view bytes, const std::function<void(const SseEvent&)>& on_event) {
  while (!bytes.empty() && !overflowed_) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    overflowed_ = line_.size() + event_.data.size() > kEventBytesMax;
    if (end == std::string_view::npos) break;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(on_event);
    line_.clear();
  }
  return !overflowed_;
}

void SseParser::take_line(const std::function<void(const SseEvent&)>& on_event) {
  std::string_view line = line_;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) {
    SseEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false)) on_event(event);
    return;
  }
  const std::size_t colon = line.find(':'); // at 0: a comment, kept alive by
  if (colon == 0) return;
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  take_field(line.substr(0, colon), value);
}

void SseParser::take_field(std::string_view field, std::string_view value) {
  if (field == "event") event_.type = value;
  if (field != "data") return; // id and retry are for reconnecting, which an answer can't
  if (has_data_) event_.data += '\n';
  event_.data += value;
  has_data_ = true;
}

} // namespace ductl::commands
