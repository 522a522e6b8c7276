// One range of bytes as a Range header asks for it (RFC 9110 section 14). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace ductl::http {

struct ByteRange {
  enum class Kind {
    Whole,        // no range, or one that is to be ignored: another unit, several ranges, bad syntax
    Part,         // `length` bytes from `offset`, of which there is at least one
    Unsatisfiable // nothing of it exists: 416
  } kind = Kind::Whole;
  std::uint64_t offset = 0, length = 0; // Whole: all
};

// `header` is the value of Range, "" when absent; `size` is that of the whole content.
[[nodiscard]] ByteRange parse_byte_range(std::string_view header, std::uint64_t size);

} // namespace ductl::http
