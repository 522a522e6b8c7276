// Text as it streams: whole characters only, and no stop string, wherever the pieces are cut.
#include "engine/stop_matcher.hpp"
#include "engine/utf8_stream.hpp"

#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

const std::string kText = "a\u00e9\u65e5\U0001f986 \U0001f468\u200d\U0001f469\u200d\U0001f467 z";

TEST(Utf8Stream, GivesWholeCharactersHoweverTheBytesAreCut) {
  for (std::size_t size = 1; size <= 5; ++size) {
    Utf8Stream stream;
    std::string out;
    for (std::size_t at = 0; at < kText.size(); at += size) {
      const std::string piece = stream.push(std::string_view(kText).substr(at, size));
      Utf8Stream alone; // each piece is whole by itself
      EXPECT_EQ(alone.push(piece), piece);
      EXPECT_EQ(alone.flush(), "");
      out += piece;
    }
    EXPECT_EQ(out + stream.flush(), kText) << size;
  }
}

TEST(Utf8Stream, HoldsNoMoreThanTheUnfinishedCharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("ab\xF0\x9F"), "ab");
  EXPECT_EQ(stream.push("\xA6"), "");
  EXPECT_EQ(stream.push("\x86"
                        "c"),
            "\U0001f986c");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, IllFormedBytesBecomeReplacementCharacters) {
  for (std::size_t size = 1; size <= 3; ++size) {
    Utf8Stream stream;
    const std::string bytes = "a\xFF"
                              "b\xE6\x97"
                              "c\xED\xA0\x80";
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += size) out += stream.push(std::string_view(bytes).substr(at, size));
    EXPECT_EQ(out + stream.flush(), "a\uFFFDb\uFFFDc\uFFFD\uFFFD\uFFFD");
  }
}

TEST(Utf8Stream, ATailThatStaysUnfinishedIsOneReplacementCharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("x\xF0\x9F\xA6"), "x");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

std::pair<std::string, bool> run(StopMatcher matcher, std::string_view text, std::size_t size) {
  std::string out;
  bool stopped = false;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const StopMatcher::Result result = matcher.push(text.substr(at, size));
    EXPECT_FALSE(stopped && !result.text.empty());
    stopped = result.stopped;
    out += result.text;
  }
  return {out + matcher.flush(), stopped};
}

struct StopCase {
  std::vector<std::string> stops;
  std::string text, shown;
  bool stopped;
};

TEST(StopMatcher, GivesTheSameTextHoweverItIsCut) {
  const StopCase cases[] = {
      {{"END"}, "hello END more", "hello ", true},
      {{"END"}, "hello EN", "hello EN", false},
      {{"END"}, "EENEND", "EEN", true}, // released step by step
      {{"aab"}, "aaab", "a", true},     // overlaps itself
      {{"abcabd"}, "abcabcabd.", "abc", true},
      {{"x", "longer"}, "a longex", "a longe", true},
      {{"bc", "abcd"}, "zabcd", "za", true}, // the one complete first
      {{"bcd", "abcd"}, "zabcd", "z", true}, // both at once: the longer
      {{"\u65e5"}, "a\u65e5b", "a", true},
      {{""}, "text", "text", false},
      {{}, "text", "text", false},
  };
  for (const StopCase& c : cases) {
    for (std::size_t size = 1; size <= c.text.size(); ++size) {
      EXPECT_EQ(run(StopMatcher(c.stops), c.text, size), std::pair(c.shown, c.stopped)) << c.text << " by " << size;
    }
  }
}

TEST(StopMatcher, HoldsOnlyWhatMayStillBecomeAStopString) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.push("one\n").text, "one");
  EXPECT_EQ(matcher.push("two").text, "\ntwo");
  EXPECT_EQ(matcher.push("\n\nUser").text, "");
  const StopMatcher::Result result = matcher.push(": three");
  EXPECT_EQ(result.text, "");
  EXPECT_TRUE(result.stopped);
  EXPECT_TRUE(matcher.push("four").stopped);
  EXPECT_EQ(matcher.flush(), "");
}

} // namespace
} // namespace ductl::engine
