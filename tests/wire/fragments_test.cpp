#include "agent/wire/fragments.hpp"

#include <array>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace ductl::wire {
namespace {

TEST(Tiling, CoversEveryByteOnce) {
  for (std::size_t mtu : {kHeaderBytes + 32, std::size_t{100}, std::size_t{1472}, std::size_t{61440}}) {
    for (std::size_t bytes :
         {std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{4000}, std::size_t{200000}}) {
      if (bytes / (mtu - kHeaderBytes) > kFragmentsMax / 2) continue;
      const Tiling tiling = make_tiling(bytes, mtu);
      std::size_t at = 0;
      for (int f = 0; f < tiling.count; ++f) {
        ASSERT_EQ(tiling.offset(f), at);
        ASSERT_GE(tiling.length(f), 1u);
        ASSERT_LE(tiling.length(f) + kHeaderBytes, mtu);
        at += tiling.length(f);
      }
      ASSERT_EQ(at, bytes);
    }
  }
}

TEST(Tiling, FragmentsOfManyStartAtMultiplesOf32) {
  const Tiling tiling = make_tiling(5000, 1472);
  EXPECT_EQ(tiling.fragment_bytes, 1408u);
  EXPECT_EQ(tiling.count, 4);
}

TEST(FragmentSet, AgreesWithASetOfNumbers) {
  std::mt19937 random(3);
  FragmentSet fragments(300);
  for (const std::size_t size : {1u, 63u, 64u, 65u, 128u, 300u, 17u}) {
    fragments.clear(size);
    std::set<std::size_t> model;
    for (int step = 0; step < 1000; ++step) {
      const std::size_t f = random() % size;
      if (random() % 3 != 0) {
        ASSERT_EQ(fragments.insert(f), model.insert(f).second);
      } else {
        ASSERT_EQ(fragments.erase(f), model.erase(f) == 1);
      }
      ASSERT_EQ(fragments.present(), model.size());
      ASSERT_EQ(fragments.full(), model.size() == size);
      const std::size_t from = random() % (size + 2);
      const auto next = model.lower_bound(from);
      ASSERT_EQ(fragments.next(from), next == model.end() ? size : *next);
      ASSERT_EQ(fragments.contains(f), model.count(f) == 1);
    }
  }
}

TEST(FragmentSet, ForgetsWhatALargerMessageLeftBehind) {
  FragmentSet fragments(200);
  fragments.fill(200);
  EXPECT_TRUE(fragments.full());
  fragments.clear(70);
  EXPECT_EQ(fragments.next(0), 70u);
  fragments.fill(70);
  EXPECT_TRUE(fragments.full());
  EXPECT_FALSE(fragments.contains(70));
  fragments.clear(200);
  EXPECT_EQ(fragments.next(0), 200u);
}

TEST(FragmentSet, MissingFragmentsTravelAsABitmap) {
  std::mt19937 random(5);
  for (std::size_t size = 1; size < 150; ++size) {
    FragmentSet have(150), wanted(150);
    have.clear(size);
    wanted.clear(size);
    for (std::size_t f = 0; f < size; ++f) {
      if (random() % 2 == 0) have.insert(f);
    }
    std::array<std::byte, 19> bitmap;
    const std::size_t first = random() % size, end = first + random() % (size - first + 1);
    const std::size_t missing = have.write_missing(first, end, std::span(bitmap).first(bitmap_bytes(size)));
    EXPECT_EQ(wanted.insert_bitmap(std::span(bitmap).first(bitmap_bytes(size))), missing);
    for (std::size_t f = 0; f < size; ++f) EXPECT_EQ(wanted.contains(f), f >= first && f < end && !have.contains(f));
  }
}

TEST(FragmentSet, BitsBeyondTheMessageAreIgnored) {
  FragmentSet wanted(64);
  wanted.clear(3);
  const std::array<std::byte, 2> bitmap{std::byte{0xff}, std::byte{0xff}};
  EXPECT_EQ(wanted.insert_bitmap(bitmap), 3u);
  EXPECT_TRUE(wanted.full());
}

} // namespace
} // namespace ductl::wire
