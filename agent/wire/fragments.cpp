#include "agent/wire/fragments.hpp"

#include "agent/wire/bytes.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace ductl::wire {

Tiling make_tiling(std::size_t message_bytes, std::size_t mtu) {
  const std::size_t room = (mtu - kHeaderBytes) / kPayloadAlignment * kPayloadAlignment;
  assert(message_bytes > 0 && message_bytes <= kMessageBytesMax && mtu > kHeaderBytes && room > 0);
  const std::size_t count = (message_bytes + room - 1) / room;
  assert(count <= kFragmentsMax);
  return {.message_bytes = static_cast<std::uint32_t>(message_bytes),
          .fragment_bytes = static_cast<std::uint32_t>(count == 1 ? message_bytes : room),
          .count = static_cast<std::uint16_t>(count)};
}

std::optional<Tiling> tiling_of(const Header& h) {
  if (h.count == 0 || h.count > kFragmentsMax || h.fragment >= h.count) return std::nullopt;
  if (h.length == 0 || h.message_length > kMessageBytesMax || h.length > h.message_length) return std::nullopt;
  if (h.fragment > 0 && h.offset % h.fragment != 0) return std::nullopt;
  const std::uint32_t each = h.fragment == 0 ? h.length : h.offset / h.fragment;
  const Tiling tiling{.message_bytes = h.message_length, .fragment_bytes = each, .count = h.count};
  if (h.count == 1) return h.offset == 0 && h.length == h.message_length ? std::optional(tiling) : std::nullopt;
  if (each == 0 || each % kPayloadAlignment != 0) return std::nullopt;
  const std::uint64_t before_last = std::uint64_t{each} * (h.count - 1u);
  if (before_last >= h.message_length || h.message_length - before_last > each) return std::nullopt;
  if (h.offset != tiling.offset(h.fragment) || h.length != tiling.length(h.fragment)) return std::nullopt;
  return tiling;
}

FragmentSet::FragmentSet(std::size_t capacity) : words_((capacity + 63) / 64) {}

void FragmentSet::clear(std::size_t size) {
  assert(size <= capacity());
  std::fill_n(words_.begin(), (std::max(size, size_) + 63) / 64, 0);
  size_ = size;
  present_ = 0;
}

void FragmentSet::fill(std::size_t size) {
  clear(size);
  std::fill_n(words_.begin(), size / 64, ~std::uint64_t{0});
  if (size % 64 != 0) words_[size / 64] = (std::uint64_t{1} << (size % 64)) - 1;
  present_ = size;
}

bool FragmentSet::insert(std::size_t fragment) {
  assert(fragment < size_);
  const std::uint64_t bit = std::uint64_t{1} << (fragment % 64);
  std::uint64_t& word = words_[fragment / 64];
  if ((word & bit) != 0) return false;
  word |= bit;
  ++present_;
  return true;
}

bool FragmentSet::erase(std::size_t fragment) {
  assert(fragment < size_);
  const std::uint64_t bit = std::uint64_t{1} << (fragment % 64);
  std::uint64_t& word = words_[fragment / 64];
  if ((word & bit) == 0) return false;
  word &= ~bit;
  --present_;
  return true;
}

bool FragmentSet::contains(std::size_t fragment) const {
  return fragment < size_ && (words_[fragment / 64] >> (fragment % 64) & 1) != 0;
}

std::size_t FragmentSet::next(std::size_t from) const {
  if (present_ == 0 || from >= size_) return size_;
  const std::size_t words = (size_ + 63) / 64;
  std::uint64_t word = words_[from / 64] & (~std::uint64_t{0} << (from % 64));
  for (std::size_t w = from / 64;;) {
    if (word != 0) return w * 64 + static_cast<std::size_t>(std::countr_zero(word));
    if (++w == words) return size_;
    word = words_[w];
  }
}

std::size_t FragmentSet::write_missing(std::size_t first, std::size_t end, std::span<std::byte> out) const {
  assert(end <= size_ && out.size() >= bitmap_bytes(size_));
  std::fill(out.begin(), out.end(), std::byte{0});
  std::size_t missing = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (contains(i)) continue;
    out[i / 8] |= std::byte{1} << (i % 8);
    ++missing;
  }
  return missing;
}

std::size_t FragmentSet::insert_bitmap(std::span<const std::byte> bitmap) {
  std::size_t named = 0;
  for (std::size_t i = 0; i < std::min(size_, bitmap.size() * 8); ++i) {
    if ((bitmap[i / 8] >> (i % 8) & std::byte{1}) == std::byte{0}) continue;
    insert(i);
    ++named;
  }
  return named;
}

} // namespace ductl::wire
