// How a message is cut into frames, and which of its fragments are there.
//
// All fragments of a message have the same length (a multiple of 32) except the last, so that one frame's header tells
// the whole tiling, and two frames that agree on it can never overlap.
#pragma once

#include "agent/wire/header.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ductl::wire {

struct Tiling {
  std::uint32_t message_bytes = 0;
  std::uint32_t fragment_bytes = 0; // of every fragment but the last; of a lone fragment: its own
  std::uint16_t count = 0;          // 0 = not known
  bool operator==(const Tiling&) const = default;

  [[nodiscard]] std::size_t offset(int fragment) const {
    return std::size_t{fragment_bytes} * static_cast<std::size_t>(fragment);
  }
  [[nodiscard]] std::size_t length(int fragment) const {
    return fragment + 1 == count ? message_bytes - offset(fragment) : fragment_bytes;
  }
  [[nodiscard]] std::span<const std::byte> cut(std::span<const std::byte> message, int fragment) const {
    return message.subspan(offset(fragment), length(fragment));
  }
};

// The tiling for frames of at most `mtu` bytes. message_bytes >= 1; the count must not exceed kFragmentsMax.
[[nodiscard]] Tiling make_tiling(std::size_t message_bytes, std::size_t mtu);
// The tiling that a request's or reply's header speaks of; nothing when its numbers contradict each other.
[[nodiscard]] std::optional<Tiling> tiling_of(const Header& header);

[[nodiscard]] constexpr std::size_t bitmap_bytes(std::size_t count) { return (count + 7) / 8; }

// A set of fragment numbers below size(). Allocates in its constructor only.
class FragmentSet {
public:
  FragmentSet() = default;
  explicit FragmentSet(std::size_t capacity);
  void clear(std::size_t size);      // empty, for `size` fragments
  void fill(std::size_t size);       // all of them
  bool insert(std::size_t fragment); // false = was there
  bool erase(std::size_t fragment);  // false = was not there
  [[nodiscard]] bool contains(std::size_t fragment) const;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return words_.size() * 64; }
  [[nodiscard]] std::size_t present() const { return present_; }
  [[nodiscard]] bool full() const { return present_ == size_; }
  // The first member at or after `from`; size() when there is none.
  [[nodiscard]] std::size_t next(std::size_t from) const;

  // Bitmaps as NACKs carry them: bit i of byte i / 8 stands for fragment i.
  // Writes those fragments of first .. end-1 that are NOT in the set; returns how many.
  std::size_t write_missing(std::size_t first, std::size_t end, std::span<std::byte> out) const;
  // Adds the fragments of a bitmap; bits beyond size() are ignored. Returns how many bits below size() were set.
  std::size_t insert_bitmap(std::span<const std::byte> bitmap);

private:
  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0, present_ = 0;
};

} // namespace ductl::wire
