#include "netboot/http/head_scan.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ductl::http {
namespace {

using State = HeadScan::State;

State scan_at_once(const std::string& text) { return HeadScan().scan(text); }

TEST(HeadScan, FindsTheEndHoweverTheBytesAreSplit) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string text = head + "body";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    HeadScan scan;
    const State first = scan.scan(std::string_view(text).substr(0, cut));
    EXPECT_EQ(first, cut < head.size() ? State::Incomplete : State::Complete) << cut;
    if (first == State::Incomplete) { EXPECT_EQ(scan.scan(text), State::Complete) << cut; }
    EXPECT_EQ(scan.head_bytes(), head.size()) << cut;
  }
}

TEST(HeadScan, RefusesWhatProxiesReadDifferently) {
  EXPECT_EQ(scan_at_once("GET / HTTP/1.1\nHost: a\n\n"), State::Bad);                       // bare LF
  EXPECT_EQ(scan_at_once("GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n"), State::Bad);              // bare CR
  EXPECT_EQ(scan_at_once("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n"), State::Bad);         // obs-fold
  EXPECT_EQ(scan_at_once("GET / HTTP/1.1\r\nA: b\r\n\tfolded\r\n\r\n"), State::Bad);        // obs-fold
  EXPECT_EQ(scan_at_once(std::string("GET / HTTP/1.1\r\nA: \0b\r\n\r\n", 24)), State::Bad); // NUL
  EXPECT_EQ(scan_at_once("\r\nGET / HTTP/1.1\r\n\r\n"), State::Bad);                        // an empty line first
}

} // namespace
} // namespace ductl::http
