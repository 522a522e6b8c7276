#include "netboot/http/head_scan.hpp"

namespace ductl::http {

HeadScan::State HeadScan::scan(std::string_view bytes) {
  while (position_ < bytes.size()) {
    const char c = bytes[position_++];
    if (after_cr_) {
      if (c != '\n') return State::Bad;
      after_cr_ = false;
      if (line_bytes_ == 0) return first_line_ ? State::Bad : State::Complete;
      line_bytes_ = 0;
      first_line_ = false;
    } else if (c == '\r') {
      after_cr_ = true;
    } else if (c == '\n' || c == '\0') {
      return State::Bad;
    } else {
      if (line_bytes_ == 0 && (c == ' ' || c == '\t')) return State::Bad;
      ++line_bytes_;
    }
  }
  return State::Incomplete;
}

} // namespace ductl::http
