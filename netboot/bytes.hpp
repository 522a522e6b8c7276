// Numbers in network order (big-endian) in byte buffers: what DHCP, TFTP, IPv4 and IPv6 are made of.
//
// A Reader never reads beyond its bytes: a read that would is a zero and leaves the reader failed, so that a parser reads on
// and asks once at its end. A Writer only grows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ductl::netboot {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

[[nodiscard]] inline std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline ByteView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Anybody's bytes as a piece of a log line: at most `length_max` of them, and '?' for what is not printable ASCII.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t length_max) {
  std::string out(text.substr(0, length_max));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return out;
}

class Reader {
public:
  explicit Reader(ByteView bytes) : rest_(bytes) {}
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] ByteView rest() const { return rest_; }

  ByteView take(std::size_t count) {
    if (count > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return number(4); }

private:
  std::uint32_t number(std::size_t count) {
    std::uint32_t value = 0;
    for (const std::byte b : take(count)) value = value << 8 | std::to_integer<std::uint32_t>(b);
    return value;
  }

  ByteView rest_;
  bool failed_ = false;
};

class Writer {
public:
  Writer& u8(std::uint32_t value) { return number(value, 1); }
  Writer& u16(std::uint32_t value) { return number(value, 2); }
  Writer& u32(std::uint32_t value) { return number(value, 4); }
  Writer& raw(ByteView bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Writer& raw(std::span<const std::uint8_t> bytes) { return raw(std::as_bytes(bytes)); }
  Writer& text(std::string_view text) { return raw(bytes_of(text)); }
  // `text` in a field of `width` bytes that ends in at least one zero. Longer text is a programmer's error.
  Writer& field(std::string_view text, std::size_t width) {
    raw(bytes_of(text.substr(0, width - 1)));
    return zeros(width - std::min(text.size(), width - 1));
  }
  Writer& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  void patch_u16(std::size_t at, std::uint16_t value) {
    bytes_[at] = static_cast<std::byte>(value >> 8);
    bytes_[at + 1] = static_cast<std::byte>(value);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

private:
  Writer& number(std::uint32_t value, int count) {
    for (int shift = 8 * (count - 1); shift >= 0; shift -= 8) bytes_.push_back(static_cast<std::byte>(value >> shift));
    return *this;
  }

  Bytes bytes_;
};

// The Internet checksum (RFC 1071) over several pieces, of which all but the last must have an even length.
[[nodiscard]] inline std::uint16_t internet_checksum(std::initializer_list<ByteView> pieces) {
  std::uint32_t sum = 0;
  for (const ByteView piece : pieces)
    for (std::size_t i = 0; i < piece.size(); ++i) sum += std::to_integer<std::uint32_t>(piece[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

} // namespace ductl::netboot
