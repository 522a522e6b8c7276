#include "engine/tokenizer/nfc.hpp"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

namespace ductl::engine {
namespace {

std::string composed(std::string_view text) {
  std::string buffer;
  return std::string(nfc(text, buffer));
}

TEST(Nfc, ComposesWhatTheStandardComposes) {
  EXPECT_EQ(composed("e\u0301"), "\u00e9");
  EXPECT_EQ(composed("\u1100\u1161\u11a8"), "\uac01");  // Hangul
  EXPECT_EQ(composed("\u212b"), "\u00c5");              // Angstrom sign
  EXPECT_EQ(composed("\u0958"), "\u0915\u093c");        // excluded from composition
  EXPECT_EQ(composed("a\u0316\u0301"), "\u00e1\u0316"); // another class between them
}

TEST(Nfc, LeavesPlainTextWhereItIs) {
  const std::string text = "plain \u00e9 text";
  std::string buffer;
  EXPECT_EQ(nfc(text, buffer).data(), text.data());
}

TEST(Nfc, AgreesWithTheLibraryOnRandomMarks) {
  std::mt19937 random(3);
  const std::u32string alphabet = U"aeo\u0301\u0316\u0323\u0344\u0345\u0f71\u1100\u1161\u11a8\u00e9\u212b\u30ab\u3099\U0001d15e";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int n = std::uniform_int_distribution<int>(0, 12)(random); n > 0; --n) {
      utf8proc_uint8_t bytes[4];
      const auto at = std::uniform_int_distribution<std::size_t>(0, alphabet.size() - 1)(random);
      const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(alphabet[at]), bytes);
      text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
    }
    utf8proc_uint8_t* expected = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(composed(text), reinterpret_cast<const char*>(expected)) << text;
    std::free(expected);
  }
}

TEST(Nfc, AMillionMarksOfAlternatingClassesTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0316";
  const std::string result = composed(text);
  EXPECT_EQ(result.substr(0, 4), "\u00e1\u0316");
}

} // namespace
} // namespace ductl::engine
