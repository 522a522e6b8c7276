// The pattern test finds bits that do not hold what was written.
#include "agent/health/memory_test.hpp"

#include <gmock/gmock.h>
#include <vector>

namespace ductl::agent::health {
namespace {

using testing::HasSubstr;

TEST(MemoryTest, SoundMemoryHasNoFindings) {
  std::vector<std::uint64_t> words(4096);
  const MemoryFindings found = test_words(words, 0);
  EXPECT_EQ(found.tested_bytes, 4096 * 8u);
  EXPECT_EQ(found.bad_words, 0u);
  EXPECT_EQ(found.first_bad, "");
}

TEST(MemoryTest, ABitStuckAtEitherValueIsFound) {
  for (const bool high : {false, true}) {
    std::vector<std::uint64_t> words(4096);
    const MemoryFindings found =
        test_words(words, 0, [&] { high ? words[1234] |= 1u << 7 : words[1234] &= ~std::uint64_t{1u << 7}; });
    EXPECT_EQ(found.bad_words, 1u) << high; // wrong for one of a value and its complement
    EXPECT_THAT(found.first_bad, HasSubstr("word 1234 of block 0"));
  }
}

TEST(MemoryTest, CrossedAddressLinesAreFound) {
  std::vector<std::uint64_t> words(4096);
  const MemoryFindings found = test_words(words, 0, [&] { words[2048] = words[0]; });
  EXPECT_EQ(found.bad_words, 2u);
}

TEST(MemoryTest, LeavesTheMachineSomeToGoOnWith) {
  constexpr std::uint64_t kMib = 1u << 20;
  EXPECT_EQ(testable_bytes(0), 0u);
  EXPECT_EQ(testable_bytes(40 * kMib), 0u);
  EXPECT_EQ(testable_bytes(100 * kMib), 52 * kMib);
  EXPECT_EQ(testable_bytes(32'768 * kMib), 32'256 * kMib);
}

TEST(MemoryTest, StopsAtItsBounds) {
  int blocks = 0;
  const MemoryFindings some = test_free_memory({.bytes_max = 64u << 20, .time_max = std::chrono::hours(1)}, [&] { ++blocks; });
  EXPECT_EQ(some.tested_bytes, 64u << 20);
  EXPECT_EQ(blocks, 2 * 4); // each written and read back, twice
  EXPECT_EQ(some.bad_words, 0u);
  EXPECT_EQ(test_free_memory({.bytes_max = ~std::uint64_t{0}, .time_max = Duration(0)}, [] {}).tested_bytes, 0u);
}

} // namespace
} // namespace ductl::agent::health
