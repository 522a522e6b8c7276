// Finds where a request's head ends, and refuses line forms that servers and proxies read differently (the raw material
// of request smuggling): a bare LF or CR, a NUL, a folded header line. The parser behind it is Beast's; this only looks.
#pragma once

#include <cstddef>
#include <string_view>

namespace ductl::http {

class HeadScan {
public:
  enum class State { Incomplete, Complete, Bad };
  // `bytes` is all of the input since reset(), longer at each call; looked at once, however it was split.
  State scan(std::string_view bytes);
  [[nodiscard]] std::size_t head_bytes() const { return position_; } // with the empty line; after Complete
  void reset() { *this = HeadScan(); }

private:
  std::size_t position_ = 0;
  std::size_t line_bytes_ = 0; // of the line so far, without CR
  bool after_cr_ = false, first_line_ = true;
};

} // namespace ductl::http
