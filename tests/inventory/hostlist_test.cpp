#include "inventory/hostlist.hpp"

#include <gmock/gmock.h>

namespace ductl::inventory {
namespace {

using ::testing::ElementsAre;

TEST(Hostlist, ARangeKeepsItsZeros) {
  EXPECT_THAT(*expand_hostlist("duck[08-11]"), ElementsAre("duck08", "duck09", "duck10", "duck11"));
}
TEST(Hostlist, ListsAndRangesMix) { EXPECT_THAT(*expand_hostlist("n[1-2,7]x"), ElementsAre("n1x", "n2x", "n7x")); }
TEST(Hostlist, TextWithoutABracketIsOne) { EXPECT_THAT(*expand_hostlist("host"), ElementsAre("host")); }
TEST(Hostlist, ARangeMayGrowADigit) { EXPECT_THAT(*expand_hostlist("[9-10]"), ElementsAre("9", "10")); }

TEST(Hostlist, EveryOddFormIsRefused) {
  for (const char* text : {"a[1-2", "a1-2]", "a]1[", "a[1][2]", "a[]", "a[1,]", "a[-2]", "a[1-]", "a[2-1]", "a[x]", "a[1-2-3]",
                           "a[1 -2]", "a[0-256]", "a[1-200,1-200]", "a[99999999999]", "a[[1]]"})
    EXPECT_FALSE(expand_hostlist(text).has_value()) << text;
}

TEST(Hostlist, TheLargestListIsAccepted) { EXPECT_EQ(expand_hostlist("a[1-256]")->size(), 256u); }

} // namespace
} // namespace ductl::inventory
