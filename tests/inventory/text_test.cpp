// Addresses as text, spelling, windows.
#include "inventory/fault_log.hpp"
#include "inventory/spelling.hpp"

#include <gtest/gtest.h>

namespace ductl::inventory {
namespace {

TEST(Ipv4Text, ComesBack) {
  EXPECT_EQ(parse_ipv4("127.21.1.101"), Ipv4{0x7f150165});
  EXPECT_EQ(to_string(Ipv4{0x7f150165}), "127.21.1.101");
  EXPECT_EQ(parse_ipv4("0.0.0.0"), Ipv4{0});
  EXPECT_EQ(parse_ipv4("255.255.255.255"), Ipv4{0xffffffff});
}

TEST(Ipv4Text, OddFormsAreRefused) {
  for (const char* text :
       {"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.-4", "1..3.4", "01.2.3.4", "1.2.3.4 ", "0x1.2.3.4", "1.2.3.4444"})
    EXPECT_FALSE(parse_ipv4(text)) << text;
}

TEST(MacText, ComesBackInLowerCase) {
  EXPECT_EQ(to_string(*parse_mac("00:E0:4c:68:00:07")), "00:e0:4c:68:00:07");
  EXPECT_EQ(to_string(*parse_mac("00-e0-4c-68-00-07")), "00:e0:4c:68:00:07");
}

TEST(MacText, OddFormsAreRefused) {
  for (const char* text : {"", "00:e0:4c:68:00", "00:e0:4c:68:00:7", "00:e0:4c:68:00:0g", "00:e0-4c:68:00:07", "00e04c680007",
                           "00.e0.4c.68.00.07", "00:e0:4c:68:00:07:", "-1:e0:4c:68:00:07"})
    EXPECT_FALSE(parse_mac(text)) << text;
}

TEST(Spelling, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("prot", "port"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Spelling, OnlyNearWordsAreSuggested) {
  const std::vector<std::string> known{"name", "address", "mac", "memory_gib"};
  EXPECT_EQ(nearest_word("adress", known), "address");
  EXPECT_EQ(nearest_word("nmae", known), "name");
  EXPECT_EQ(nearest_word("memory", known), "memory_gib");
  EXPECT_EQ(nearest_word("cores", known), "");
  EXPECT_EQ(nearest_word("ip", known), "");
  EXPECT_EQ(nearest_word(std::string(100, 'a'), known), "");
}

TEST(Window, TheCaretStandsUnderTheMark) {
  EXPECT_EQ(window_text({7, 5, 3, "abc def"}, "here"), "  |\n7 | abc def\n  |     ^^^ here");
}

TEST(Window, CharactersAreCountedNotBytes) {
  EXPECT_EQ(window_text({1, 6, 2, "é = \"ü\""}, ""), "  |\n1 | é = \"ü\"\n  |     ^^");
}

TEST(Window, LongLinesAreCutAroundTheMark) {
  const std::string line = std::string(1000, 'a') + "MARK" + std::string(1000, 'b');
  const std::string window = window_text({3, 1001, 4, line}, "");
  EXPECT_LT(window.size(), 500u);
  EXPECT_NE(window.find("aMARKb"), std::string::npos);
  EXPECT_NE(window.find("^^^^"), std::string::npos);
}

TEST(Window, APlaceBeyondTheLineStillHasACaret) {
  EXPECT_EQ(window_text({1, 50, 9, "a ="}, "value"), "  |\n1 | a =\n  |    ^ value");
}

} // namespace
} // namespace ductl::inventory
