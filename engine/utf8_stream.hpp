// Bytes of tokens in, whole characters out: a token may end within a character, a stream of text may not.
#pragma once

#include <string>
#include <string_view>

namespace ductl::engine {

class Utf8Stream {
public:
  // What is complete now. At most three bytes of an unfinished character are held; each ill-formed sequence gives one U+FFFD.
  [[nodiscard]] std::string push(std::string_view bytes);
  // The end of the text: a held tail can't become a character any more and gives one U+FFFD.
  [[nodiscard]] std::string flush();

private:
  std::string held_;
};

} // namespace ductl::engine
