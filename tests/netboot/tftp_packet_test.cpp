#include "netboot/tftp/packet.hpp"

#include <gtest/gtest.h>

namespace ductl::netboot::tftp {
namespace {

using namespace std::string_literals;

tl::expected<ReadRequest, Refusal> request(const std::string& text) { return parse_request(bytes_of(text)); }
std::string shown(const Bytes& bytes) { return std::string(text_of(bytes)); }

TEST(TftpRequest, OfOvmf) {
  const auto r = request("\0\1ipxe.efi\0octet\0tsize\0000\0blksize\0001468\0windowsize\0004\0"s);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->name, "ipxe.efi");
  EXPECT_TRUE(r->asked.size);
  EXPECT_EQ(r->asked.block_bytes, 1468u);
  EXPECT_EQ(r->asked.window_blocks, 4u);
  EXPECT_EQ(r->asked.timeout_s, std::nullopt);
}

TEST(TftpRequest, WithoutOptionsAndInAnyCase) {
  const auto r = request("\0\1undionly.kpxe\0OCTET\0"s);
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->asked.size || r->asked.block_bytes || r->asked.window_blocks || r->asked.timeout_s);
  EXPECT_EQ(request("\0\1a\0oCtEt\0BlkSize\000512\0"s)->asked.block_bytes, 512u);
}

TEST(TftpRequest, UnknownOptionsAreLeftOut) {
  const auto r = request("\0\1a\0octet\0multicast\0\0blksize\0001000\0utimeout\0x\0"s);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->asked.block_bytes, 1000u);
}

TEST(TftpRequest, SloppyNamesAndPaddingAreForgiven) {
  EXPECT_EQ(request("\0\1/ipxe.efi\0octet\0"s)->name, "ipxe.efi");
  EXPECT_EQ(request("\0\1.//./ipxe.efi\xff\0octet\0"s)->name, "ipxe.efi");
  EXPECT_EQ(request("\0\1ipxe.efi\0octet\0\0\0\0"s)->name, "ipxe.efi");
}

TEST(TftpRequest, RangesOfOptionsAreRefusedWithError8) {
  for (const std::string& option :
       {"blksize\0007"s, "blksize\00065465"s, "blksize\0-1"s, "blksize\0001468x"s, "blksize\0 8"s, "windowsize\0000"s,
        "windowsize\00065536"s, "tsize\0x"s, "timeout\0000"s, "timeout\000256"s, "blksize\00099999999999"s}) {
    const auto r = request("\0\1a\0octet\0"s + option + "\0"s);
    ASSERT_FALSE(r) << option;
    EXPECT_EQ(r.error().number, ErrorNumber::OptionRefused) << option;
  }
}

TEST(TftpRequest, MalformedOnesAreRefused) {
  for (const std::string& text : {"\0\1a"s, "\0\1a\0"s, "\0\1a\0octet"s, "\0\1a\0octet\0tsize\0"s, "\0\1"s}) {
    const auto r = request(text);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().number, ErrorNumber::IllegalOperation);
  }
}

TEST(TftpRequest, WritesAndOtherModesAreRefused) {
  EXPECT_EQ(request("\0\2a\0octet\0"s).error().number, ErrorNumber::AccessViolation);
  EXPECT_EQ(request("\0\1a\0netascii\0"s).error().text, "only octet mode");
}

TEST(TftpRequest, WhatIsNoRequestGetsNoAnswer) { // an ERROR for an ERROR would never end
  for (const std::string& text :
       {""s, "\0"s, "\0\5\0\0x\0"s, "\0\4\0\0"s, "\0\3\0\1abc"s, "\0\6tsize\0001\0"s, "\0\1"s + std::string(600, 'a')})
    EXPECT_EQ(request(text).error().text, "") << text.size();
}

TEST(TftpAnswer, AckAndError) {
  const auto ack = parse_answer(bytes_of("\0\4\xff\xfe"s));
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->kind, Answer::Kind::Ack);
  EXPECT_EQ(ack->number, 0xfffe);
  const auto error = parse_answer(bytes_of("\0\5\0\x08User aborted\x07 the transfer\0trailing"s));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->number, 8);
  EXPECT_EQ(error->text, "User aborted? the transfer");
  EXPECT_EQ(parse_answer(bytes_of("\0\5\0\0"s + std::string(500, 'x')))->text.size(), 80u);
  for (const std::string& text : {""s, "\0\4\0"s, "\0\3\0\1"s, "\0\1a\0octet\0"s}) EXPECT_FALSE(parse_answer(bytes_of(text)));
}

TEST(TftpPackets, AreBuilt) {
  EXPECT_EQ(shown(data_packet(0x0102, bytes_of("abc"))), "\0\3\1\2abc"s);
  EXPECT_EQ(shown(error_packet(ErrorNumber::NotFound, "no")), "\0\5\0\1no\0"s);
  EXPECT_EQ(shown(option_ack_packet({{"tsize", 850000}, {"blksize", 1468}})), "\0\6tsize\000850000\0blksize\0001468\0"s);
}

} // namespace
} // namespace ductl::netboot::tftp
