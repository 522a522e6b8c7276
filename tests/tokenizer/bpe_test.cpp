// Merging, cutting and added tokens, on tokenizers small enough to follow by hand.
#include "tests/tokenizer/tiny_tokenizer.hpp"

#include "engine/tokenizer/bpe.hpp"

#include <gtest/gtest.h>
#include <random>

namespace ductl::engine {
namespace {

using Ids = std::vector<int>;

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special = SpecialTokens::Match) {
  std::vector<std::string> out;
  for (const int id : tokenizer.encode(text, special)) out.emplace_back(tokenizer.bytes(id));
  return out;
}
using Pieces = std::vector<std::string>;

TEST(Merging, TheLowestRankGoesFirstAndTheLeftmostAmongEquals) {
  const auto tokenizer = TinyTokenizer{.merges = {{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}}}.make();
  EXPECT_EQ(pieces(*tokenizer, "abc"), (Pieces{"a", "bc"})); // not "ab", "c"
  EXPECT_EQ(pieces(*tokenizer, "aaa"), (Pieces{"aaa"}));
  EXPECT_EQ(pieces(*tokenizer, "aaaaa"), (Pieces{"aa", "aaa"})); // aa aa a, then the pair that exists
}

TEST(Merging, BothSpellingsOfMergesMeanTheSame) {
  TinyTokenizer tiny{.merges = {{"a", "b"}, {"ab", "c"}}};
  nlohmann::json json = tiny.json();
  json["model"]["merges"] = {"a b", "ab c"};
  const auto spaced = parse_tokenizer(json.dump(), "tiny");
  ASSERT_TRUE(spaced) << spaced.error().text();
  EXPECT_EQ(pieces(**spaced, "abcab"), pieces(*tiny.make(), "abcab"));
}

// The quick way for short pieces and the heap for long ones are the same function.
TEST(Merging, LongPiecesMergeByTheSameRuleAsShortOnes) {
  std::array<int, 256> byte_ids{};
  for (int i = 0; i < 256; ++i) byte_ids[static_cast<std::size_t>(i)] = i;
  std::mt19937 random(7);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Bpe::Merge> merges;
    for (int i = 0; i < 12; ++i) {
      const auto any = [&] { return below(3) == 0 && i > 0 ? 256 + below(i) : 'a' + below(3); };
      merges.push_back({any(), any(), 256 + i, static_cast<std::uint32_t>(i)});
    }
    const Bpe bpe(byte_ids, merges);
    std::string text;
    for (int n = below(60); n > 0; --n) text += static_cast<char>('a' + below(3));
    // The definition, word for word.
    Ids expected(text.begin(), text.end());
    for (;;) {
      const Bpe::Merge* best = nullptr;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) { // the last one with a pair counts
          if (merge->left != expected[i] || merge->right != expected[i + 1]) continue;
          if (best == nullptr || merge->rank < best->rank) best = &*merge, at = i;
          break;
        }
      }
      if (best == nullptr) break;
      expected[at] = best->product;
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Ids ids;
    bpe.encode(text, ids);
    ASSERT_EQ(ids, expected) << text;
  }
}

TEST(Merging, AMillionTimesOneLetterTakesNoQuadraticTime) {
  TinyTokenizer tiny;
  std::string run = "a";
  for (int i = 0; i < 10; ++i, run += run) tiny.merges.emplace_back(run, run); // up to 1,024 letters
  const auto tokenizer = tiny.make();
  const Ids ids = tokenizer->encode(std::string(1 << 20, 'a'), SpecialTokens::Ignore);
  EXPECT_EQ(ids, Ids(1024, 256 + 9));
}

TEST(Cutting, PiecesNeverMergeAcrossTheirEdges) {
  const auto tokenizer = TinyTokenizer{.merges = {{" ", "1"}, {"1", "2"}, {"a", " "}, {" ", "b"}},
                                       .pre_tokenizer = {{"type", "Sequence"},
                                                         {"pretokenizers",
                                                          {{{"type", "Digits"}, {"individual_digits", true}},
                                                           {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}}}
                             .make();
  EXPECT_EQ(pieces(*tokenizer, "a 12 b"), (Pieces{"a", " ", "1", "2", " b"}));
}

TEST(Cutting, DigitsStayTogetherUnlessIndividual) {
  TinyTokenizer tiny{.merges = {{"1", "2"}}};
  tiny.pre_tokenizer = {{"type", "Sequence"},
                        {"pretokenizers",
                         {{{"type", "Digits"}, {"individual_digits", false}},
                          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(pieces(*tiny.make(), "x12"), (Pieces{"x", "12"}));
}

TEST(Cutting, ALiteralPatternIsNoExpression) {
  TinyTokenizer tiny{.merges = {{"x", "."}, {".", "."}, {"x", "x"}}};
  tiny.pre_tokenizer = {{"type", "Sequence"},
                        {"pretokenizers",
                         {{{"type", "Split"}, {"pattern", {{"String", "."}}}, {"behavior", "Isolated"}, {"invert", false}},
                          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(pieces(*tiny.make(), "xx.."), (Pieces{"xx", ".", "."}));
}

TEST(Cutting, APatternThatExplodesLosesNoText) {
  TinyTokenizer tiny;
  tiny.pre_tokenizer = {{"type", "Sequence"},
                        {"pretokenizers",
                         {{{"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}, {"invert", false}},
                          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto tokenizer = tiny.make();
  const std::string text = std::string(40, 'a') + "b";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::Ignore)), text);
}

TEST(AddedTokens, AreFoundLiterallyAndTheLongestWins) {
  const auto tokenizer = TinyTokenizer{.merges = {{"a", "b"}}, .special = {"<s>", "<s>x"}, .ordinary = {"<think>"}}.make();
  EXPECT_EQ(pieces(*tokenizer, "ab<s>xab<s><think>"), (Pieces{"ab", "<s>x", "ab", "<s>", "<think>"}));
  EXPECT_EQ(tokenizer->id_of("<s>"), 257);
  EXPECT_FALSE(tokenizer->id_of("ab")); // a token, not an added one
  EXPECT_TRUE(tokenizer->is_special(257));
  EXPECT_FALSE(tokenizer->is_special(*tokenizer->id_of("<think>")));
  EXPECT_EQ(tokenizer->size(), 260);
}

TEST(AddedTokens, UserTextYieldsNoneOfThem) {
  const auto tokenizer = TinyTokenizer{.special = {"<s>"}, .ordinary = {"<think>"}}.make();
  EXPECT_EQ(tokenizer->encode("<s><think>", SpecialTokens::Ignore), (Ids{'<', 's', '>', '<', 't', 'h', 'i', 'n', 'k', '>'}));
}

TEST(AddedTokens, NoMergeLeadsToOne) {
  // The vocabulary itself holds "<s>" and merges that build it.
  nlohmann::json json = TinyTokenizer{.merges = {{"<", "s"}, {"<s", ">"}}}.json();
  json["pre_tokenizer"]["use_regex"] = false;
  json["added_tokens"] = {{{"id", 257}, {"content", "<s>"}, {"special", true}}};
  for (const bool whole_pieces : {false, true}) {
    json["model"]["ignore_merges"] = whole_pieces;
    const auto tokenizer = parse_tokenizer(json.dump(), "tiny");
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    EXPECT_EQ((*tokenizer)->encode("<s>", SpecialTokens::Match), Ids{257});
    EXPECT_EQ((*tokenizer)->encode("<s>", SpecialTokens::Ignore), (Ids{256, '>'}));
  }
}

TEST(AddedTokens, ThoseMarkedNormalizedAreFoundInTheNormalisedText) {
  nlohmann::json json = TinyTokenizer{.normalizer = {{"type", "NFC"}}}.json();
  json["added_tokens"] = {{{"id", 256}, {"content", "\u1ea1"}, {"special", false}, {"normalized", true}},
                          {{"id", 257}, {"content", "\u1e0d"}, {"special", false}, {"normalized", false}}};
  const auto tokenizer = parse_tokenizer(json.dump(), "tiny");
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ((*tokenizer)->encode("a\u0323", SpecialTokens::Match), Ids{256});
  EXPECT_EQ((*tokenizer)->encode("d\u0323", SpecialTokens::Match), (Ids{0xE1, 0xB8, 0x8D})); // the raw text doesn't hold it
  EXPECT_EQ((*tokenizer)->encode("\u1e0d", SpecialTokens::Match), Ids{257});
}

TEST(WholePieces, BeatMergesWhereTheFileSaysSo) {
  nlohmann::json json = TinyTokenizer{.merges = {{"b", "c"}, {"a", "b"}}}.json();
  json["model"]["vocab"]["abc"] = 258; // no merge builds it
  const auto merged = parse_tokenizer(json.dump(), "tiny");
  json["model"]["ignore_merges"] = true;
  const auto whole = parse_tokenizer(json.dump(), "tiny");
  ASSERT_TRUE(merged && whole);
  EXPECT_EQ((*merged)->encode("abc", SpecialTokens::Match), (Ids{'a', 256}));
  EXPECT_EQ((*whole)->encode("abc", SpecialTokens::Match), Ids{258});
}

TEST(Bytes, AnythingThatIsUtf8ComesBack) {
  const auto tokenizer = TinyTokenizer{.merges = {{"\xF0", "\x9F"}}}.make();
  const std::string text = std::string("a\0b", 3) + "\r\n\t 日本 🦆 e\u0301 \uFFFD";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::Match)), text);
}

TEST(Bytes, WhatIsNotUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = TinyTokenizer{}.make();
  const auto read = [&](std::string_view text) { return tokenizer->decode(tokenizer->encode(text, SpecialTokens::Ignore)); };
  EXPECT_EQ(read("a\xFF"
                 "b"),
            "a\uFFFDb");
  EXPECT_EQ(read("\xE6\x97"), "\uFFFD");                           // cut short: one character lost, one mark
  EXPECT_EQ(read("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");           // a surrogate
  EXPECT_EQ(read("\xC0\x80"), "\uFFFD\uFFFD");                     // overlong
  EXPECT_EQ(read("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD"); // beyond U+10FFFF
}

TEST(Bytes, AByteThatTheVocabularyLacksYieldsNothing) {
  nlohmann::json json = TinyTokenizer{}.json();
  json["model"]["vocab"].erase("z");
  const auto tokenizer = parse_tokenizer(json.dump(), "tiny");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->encode("azb", SpecialTokens::Match), (Ids{'a', 'b'}));
}

TEST(Ids, WithoutTextGiveNothing) {
  nlohmann::json json = TinyTokenizer{}.json();
  json["added_tokens"] = {{{"id", 300}, {"content", "<s>"}, {"special", true}}};
  const auto tokenizer = parse_tokenizer(json.dump(), "tiny");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->size(), 301);
  for (const int id : {-1, 299, 301, 1 << 30}) {
    EXPECT_EQ((*tokenizer)->bytes(id), "");
    EXPECT_FALSE((*tokenizer)->is_special(id));
  }
  EXPECT_EQ((*tokenizer)->decode(Ids{'a', 300, 299, 'b'}), "a<s>b");
  EXPECT_EQ((*tokenizer)->decode(Ids{'a', 300, 299, 'b'}, true), "ab");
}

} // namespace
} // namespace ductl::engine
