#include "engine/tokenizer/nfc.hpp"

#include "engine/tokenizer/utf8.hpp"

#include <algorithm>
#include <cassert>
#include <utf8proc.h>
#include <vector>

namespace ductl::engine {
namespace {

constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

std::vector<utf8proc_int32_t> decomposed(std::string_view text) {
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  utf8proc_int32_t buffer[8]; // a canonical decomposition has at most four
  while (!text.empty()) {
    const auto length = static_cast<std::size_t>(utf8_step(text).length);
    const auto point = static_cast<utf8proc_int32_t>(utf8_code_point(text.substr(0, length)));
    const auto count = utf8proc_decompose_char(point, buffer, std::size(buffer), kDecompose, nullptr);
    assert(count >= 0 && count <= static_cast<utf8proc_ssize_t>(std::size(buffer)));
    points.insert(points.end(), buffer, buffer + count);
    text.remove_prefix(length);
  }
  return points;
}

// utf8proc_decompose() sorts marks by swapping neighbours, quadratic in a run of marks; a request may hold megabytes of them.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  for (auto begin = points.begin(); begin != points.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, points.end(), [](auto point) { return combining_class(point) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

} // namespace

std::string_view nfc(std::string_view text, std::string& buffer) {
  // Nothing below U+0300 is a mark or decomposes further than its own composed form.
  const bool plain = std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
  if (plain) return text;
  std::vector<utf8proc_int32_t> points = decomposed(text);
  order_marks(points);
  const auto count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  assert(count >= 0);
  buffer.clear();
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(points[static_cast<std::size_t>(i)], bytes);
    buffer.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  }
  return buffer;
}

} // namespace ductl::engine
