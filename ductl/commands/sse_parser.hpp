// Server-sent events from a byte stream, however it is cut (WHATWG HTML, "parsing an event stream"). No I/O.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ductl::commands {

struct SseEvent {
  std::string type; // "" = message
  std::string data; // data lines joined by newlines
};

class SseParser {
public:
  static constexpr std::size_t kEventBytesMax = 16u << 20;

  // Calls `on_event` for each event that has data. False once an event has grown beyond kEventBytesMax: the peer sends no
  // events, and nothing more is taken. An event that is not ended by an empty line is never given out.
  [[nodiscard]] bool feed(std::string_view bytes, const std::function<void(const SseEvent&)>& on_event);

private:
  void take_line(const std::function<void(const SseEvent&)>& on_event);
  void take_field(std::string_view field, std::string_view value);

  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool after_return_ = false; // the last byte was \r: a \n that follows belongs to it
  bool first_line_ = true;    // may begin with a byte order mark
  bool overflowed_ = false;
};

} // namespace ductl::commands
