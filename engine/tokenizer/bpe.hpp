// Byte-pair merging: the bytes of a piece become tokens by the merges of lowest rank, leftmost first.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ductl::engine {

// Immutable. encode() takes O(n log n) time and O(n) memory for a piece of n bytes.
class Bpe {
public:
  struct Merge {
    int left = 0, right = 0, product = 0;
    std::uint32_t rank = 0;
  };

  // byte_ids: the token of each single byte; -1 = the vocabulary lacks it, and it yields nothing.
  // Of merges with the same pair the last one counts.
  Bpe(const std::array<int, 256>& byte_ids, const std::vector<Merge>& merges);

  void encode(std::string_view piece, std::vector<int>& out) const; // appends

private:
  struct Slot {
    std::uint64_t pair;
    std::uint32_t rank;
    int product;
  };
  [[nodiscard]] const Slot* find(int left, int right) const; // nullptr: no such merge
  [[nodiscard]] std::uint32_t rank_of(int left, int right) const;
  void merge_short(std::vector<int>& out, std::size_t begin) const;
  void merge_long(std::vector<int>& out, std::size_t begin) const;

  std::array<int, 256> byte_ids_;
  std::vector<Slot> slots_; // open addressing, at most half full
  std::uint64_t mask_ = 0;
};

} // namespace ductl::engine
