// What people see: numbers, tables, progress, errors.
#include "ductl/view/error_view.hpp"
#include "ductl/view/format.hpp"
#include "ductl/view/progress.hpp"
#include "ductl/view/table.hpp"
#include "inventory/error_json.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace ductl::view {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BytesText, KeepsFourDigitsAtMost) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(6549825126), "6.1 GiB");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(DurationText, ChoosesTheUnit) {
  EXPECT_EQ(duration_text(17ns), "17 ns");
  EXPECT_EQ(duration_text(850us), "850 us");
  EXPECT_EQ(duration_text(1234us), "1.2 ms");
  EXPECT_EQ(duration_text(12ms), "12 ms");
  EXPECT_EQ(duration_text(1900ms), "1.9 s");
  EXPECT_EQ(duration_text(59960ms), "1m 00s");
  EXPECT_EQ(duration_text(125s), "2m 05s");
  EXPECT_EQ(duration_text(3h + 7min), "3h 07m");
  EXPECT_EQ(duration_text(98h), "4d 02h");
  EXPECT_EQ(duration_text(-5s), "0 ns");
}

TEST(CountText, GroupsThousands) {
  EXPECT_EQ(count_text(7), "7");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
}

TEST(TimestampText, IsInUtc) { EXPECT_EQ(timestamp_text(std::chrono::system_clock::time_point{}), "1970-01-01T00:00:00Z"); }

TEST(DisplayWidth, CountsCellsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("été"), 3);
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("\xff\xfe"), 2);
}

TEST(Cut, NeverExceedsTheWidth) {
  EXPECT_EQ(cut("abcdef", 6), "abcdef");
  EXPECT_EQ(cut("abcdef", 4), "abc…");
  EXPECT_EQ(cut("漢字漢字", 4), "漢…");
  EXPECT_EQ(cut("abc", 0), "");
}

TEST(Printable, WhatSteersATerminalIsReplaced) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\ufffd[2Jb");
  EXPECT_EQ(printable("a\nb\tc"), "a\ufffdb c");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            "\ufffd1m");                          // a C1 control
  EXPECT_EQ(printable("\u202eabc"), "\ufffdabc"); // text turned around
  EXPECT_EQ(printable("é漢👩‍🌾"), "é漢👩‍🌾");
  EXPECT_EQ(printable("\xff"), "\ufffd");
  EXPECT_EQ(printable_lines("a\nb\tc\x1b\n"), "a\nb\tc\ufffd\n");
}

TEST(Table, ColumnsAlignByCells) {
  Table table({{"NAME"}, {"SLICES", true}, {"NOTE", false, true}, {"STATE"}});
  table.add({"duck01", "7", "hidden", "serving"});
  table.add({"漢", "12345", "", "ready"});
  EXPECT_EQ(table.text(false, false), "NAME    SLICES  STATE\n"
                                      "duck01       7  serving\n"
                                      "漢       12345  ready\n");
  EXPECT_THAT(table.text(true, false), HasSubstr("hidden  serving\n"));
}

TEST(Table, EndsOfLinesCarryNoSpaces) {
  Table table({{"A"}, {"B"}});
  table.add({"x", ""});
  EXPECT_EQ(table.text(false, false), "A  B\nx\n");
}

TEST(Table, ColourDoesNotMoveColumns) {
  Table table({{"A"}, {"B"}});
  table.add({Cell("ok", Style::Green), "b"});
  EXPECT_EQ(table.text(false, true), "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[32mok\x1b[0m  b\n");
}

Moment at(std::chrono::milliseconds since_start) {
  return {Instant{} + since_start, std::chrono::system_clock::time_point{} + since_start};
}

TEST(Progress, OffATerminalEachTransitionIsOnePlainLine) {
  ProgressPainter painter(false, false, 80);
  const std::string begin = painter.update({"filling", StageState::Running, 0, 4, 0, 1 << 20, ""}, at(0ms));
  EXPECT_THAT(begin, ::testing::EndsWith(" filling: begins  0/4  0 B of 1.0 MiB\n"));
  EXPECT_EQ(painter.update({"filling", StageState::Running, 2, 4, 1 << 19, 1 << 20, ""}, at(500ms)), "");
  const std::string end = painter.update({"filling", StageState::Done, 4, 4, 1 << 20, 1 << 20, "duck04"}, at(1500ms));
  EXPECT_THAT(end, ::testing::EndsWith(" filling: done  4/4  1.0 MiB of 1.0 MiB  duck04  in 1.5 s\n"));
  const std::string odd = painter.update({"two", StageState::Failed, 0, 0, 0, 0, "duck02 \x1b[2J"}, at(2s));
  for (const std::string& text : {begin, end, odd}) EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(painter.close(), "");
}

TEST(Progress, OnATerminalALineIsRepaintedInPlace) {
  ProgressPainter painter(true, false, 80);
  EXPECT_EQ(painter.update({"filling", StageState::Running, 0, 4, 0, 0, ""}, at(0ms)), "• filling      0/4  0 ns");
  EXPECT_EQ(painter.update({"filling", StageState::Running, 1, 4, 0, 0, ""}, at(10ms)), ""); // too soon to be seen
  EXPECT_EQ(painter.update({"filling", StageState::Running, 2, 4, 0, 0, ""}, at(100ms)), "\r\x1b[J• filling      2/4  100 ms");
  EXPECT_EQ(painter.update({"filling", StageState::Done, 4, 4, 0, 0, ""}, at(200ms)), "\r\x1b[J✓ filling      4/4  200 ms\n");
  EXPECT_EQ(painter.close(), "");
}

TEST(Progress, SeveralStagesHaveALineEach) {
  ProgressPainter painter(true, false, 80);
  (void)painter.update({"one", StageState::Running, 0, 0, 0, 0, ""}, at(0ms));
  EXPECT_THAT(painter.update({"two", StageState::Running, 0, 0, 0, 0, ""}, at(1ms)), HasSubstr("\n• two"));
  EXPECT_THAT(painter.update({"one", StageState::Failed, 0, 0, 0, 0, "why"}, at(2ms)),
              ::testing::AllOf(::testing::StartsWith("\x1b[1A\r\x1b[J✗ one"), HasSubstr("\n• two")));
  EXPECT_EQ(painter.close(), "\n");
}

TEST(Progress, ALineNeverWraps) {
  ProgressPainter painter(true, false, 30);
  const std::string line = painter.update({"filling", StageState::Running, 0, 0, 0, 0, std::string(200, 'x')}, at(0ms));
  EXPECT_EQ(display_width(line), 29);
}

TEST(ErrorView, TextHasRustcsForm) {
  const Error error{ErrorCode::kInventoryValue, "bad \x1b value", "f:1:2", "mend it", "  |\n1 | x\n  | ^"};
  EXPECT_EQ(error_text(error, false), "error[D0101]: bad \ufffd value\n  --> f:1:2\n  |\n1 | x\n  | ^\nhelp: mend it\n");
  EXPECT_THAT(error_text(error, true), ::testing::StartsWith("\x1b[1;31merror[D0101]\x1b[0m"));
}

TEST(ErrorView, TheDocumentListsAllErrors) {
  const std::vector<Error> errors{{ErrorCode::kUsage, "a", "p", "n", {}}, {ErrorCode::kPower, "b", "", "", {}}};
  const auto document = errors_document(errors);
  EXPECT_EQ(document["schema"], "ductl/error/v1");
  EXPECT_EQ(document["error"]["code"], "D0500");
  EXPECT_EQ(document["errors"].size(), 2u);
  EXPECT_EQ(document.begin().key(), "schema");
}

} // namespace
} // namespace ductl::view
