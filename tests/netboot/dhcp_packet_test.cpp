#include "firmware.hpp"

#include <gtest/gtest.h>
#include <random>

namespace ductl::netboot::dhcp {
namespace {

using namespace test;
using namespace std::string_literals;

constexpr Mac kMac{0x52, 0x54, 0, 1, 2, 3};

Fault fault_of(ByteView bytes) { return parse(bytes).error(); }

TEST(DhcpPacket, EveryFieldIsRead) {
  RawMessage m = uefi_pxe(kMac);
  m.hops = 3;
  m.xid = 0xdeadbeef;
  m.secs = 12;
  m.ciaddr = 0x01020304;
  m.yiaddr = 0x05060708;
  m.siaddr = 0x090a0b0c;
  m.giaddr = 0x0d0e0f10;
  m.sname = "host";
  m.file = "loader.efi";
  const auto p = parse(m.bytes());
  ASSERT_TRUE(p);
  EXPECT_EQ(p->op, Op::Request);
  EXPECT_EQ(p->hops, 3);
  EXPECT_EQ(p->xid, 0xdeadbeef);
  EXPECT_EQ(p->secs, 12);
  EXPECT_TRUE(p->wants_broadcast());
  EXPECT_EQ(p->ciaddr, 0x01020304u);
  EXPECT_EQ(p->yiaddr, 0x05060708u);
  EXPECT_EQ(p->siaddr, 0x090a0b0cu);
  EXPECT_EQ(p->giaddr, 0x0d0e0f10u);
  EXPECT_EQ(p->mac, kMac);
  EXPECT_EQ(p->sname, "host");
  EXPECT_EQ(p->file, "loader.efi");
  EXPECT_EQ(p->type(), MessageType::Discover);
  EXPECT_EQ(p->number(93, 2), 7u);
  EXPECT_EQ(*p->find(60), "PXEClient:Arch:00007:UNDI:003000");
}

TEST(DhcpPacket, MalformedOnesAreRefused) {
  const Bytes sound = uefi_pxe(kMac).bytes();
  for (std::size_t length = 0; length < 240; ++length) ASSERT_FALSE(parse(ByteView(sound).first(length))) << length;
  const auto changed = [&](std::size_t at, int value) {
    Bytes bytes = sound;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_EQ(fault_of(changed(0, 3)), Fault::NotEthernet);
  EXPECT_EQ(fault_of(changed(1, 6)), Fault::NotEthernet);
  EXPECT_EQ(fault_of(changed(2, 16)), Fault::NotEthernet);
  EXPECT_EQ(fault_of(changed(236, 0)), Fault::NoCookie);
  EXPECT_EQ(fault_of(changed(241, 255)), Fault::BadOption); // the first option's length
}

TEST(DhcpPacket, OptionsThatRunBeyondTheEndAreRefusedAtEveryCut) {
  const Bytes sound = bios_ipxe(kMac).bytes();
  std::size_t whole = 0;
  for (std::size_t length = 240; length < sound.size(); ++length) {
    const auto p = parse(ByteView(sound).first(length));
    if (!p) continue;
    ++whole; // cut between two options: a missing end is forgiven
    ASSERT_LE(p->options.size(), 10u);
  }
  EXPECT_EQ(whole, 11u); // before the first, and after each of the ten
}

TEST(DhcpPacket, PaddingAndAMissingEndAreForgiven) {
  Bytes bytes = duck_agent(kMac).bytes();
  bytes.pop_back();
  EXPECT_TRUE(parse(bytes));
  bytes.insert(bytes.end(), 40, std::byte{0});
  EXPECT_TRUE(parse(bytes));
  Bytes front = RawMessage{}.bytes();
  front.pop_back();
  for (const int b : {0, 0, 53, 1, 1, 0, 255, 9, 9}) front.push_back(static_cast<std::byte>(b));
  EXPECT_EQ(parse(front)->type(), MessageType::Discover);
}

TEST(DhcpPacket, PiecesOfAnOptionAreJoined) { // RFC 3396
  RawMessage m;
  m.options = {{53, u8(1)}, {67, "http://10.21"}, {12, "x"}, {67, ".1.1/boot"}};
  EXPECT_EQ(*parse(m.bytes())->find(67), "http://10.21.1.1/boot");
}

TEST(DhcpPacket, OptionsInFileAndSname) { // RFC 2131 section 4.1
  RawMessage m;
  m.options = {{53, u8(1)}, {52, u8(3)}, {67, "a"}};
  m.file = "\x43\2bc\xff"s;
  m.sname = "\x43\1d\x0c\4duck\xff"s;
  const auto p = parse(m.bytes());
  ASSERT_TRUE(p);
  EXPECT_EQ(*p->find(67), "abcd"); // options, then file, then sname
  EXPECT_EQ(*p->find(12), "duck");
  EXPECT_EQ(p->file, "");
  EXPECT_EQ(p->sname, "");
  m.options[1].value = u8(1);
  EXPECT_EQ(parse(m.bytes())->sname.substr(0, 3), "\x43\1d");
  m.options[1].value = u8(4);
  EXPECT_EQ(fault_of(m.bytes()), Fault::BadOption);
  m.options[1].value = "\1\1"s;
  EXPECT_EQ(fault_of(m.bytes()), Fault::BadOption);
  m.options[1].value = u8(2);
  m.sname = "\x43\x70too long"s;
  EXPECT_EQ(fault_of(m.bytes()), Fault::BadOption);
}

TEST(DhcpPacket, OneOverloadInsideAnOverloadedFieldChangesNothing) {
  RawMessage m;
  m.options = {{53, u8(1)}, {52, u8(1)}};
  m.file = "\x34\1\3\xff"s; // option 52 = 3 inside file
  m.sname = "host";
  const auto p = parse(m.bytes());
  ASSERT_TRUE(p);
  EXPECT_EQ(p->sname, "host");
}

TEST(DhcpPacket, FieldsWithoutAZeroEndWhereTheyEnd) {
  RawMessage m;
  m.options = {{53, u8(1)}};
  m.file = std::string(128, 'f');
  m.sname = std::string(64, 's');
  EXPECT_EQ(parse(m.bytes())->file, m.file);
  EXPECT_EQ(parse(m.bytes())->sname, m.sname);
}

TEST(DhcpPacket, NumbersHaveTheirLength) {
  RawMessage m;
  m.options = {{53, "\1\1"s}, {50, "\1\2\3"s}, {57, u16(1000)}};
  const auto p = parse(m.bytes());
  EXPECT_EQ(p->type(), MessageType::None);
  EXPECT_EQ(p->address(50), std::nullopt);
  EXPECT_EQ(p->number(57, 2), 1000u);
  m.options[0].value = u8(9);
  EXPECT_EQ(parse(m.bytes())->type(), MessageType::None);
}

TEST(DhcpPacket, LongestMessageIsOption57WithoutItsHeaders) {
  const auto longest = [](std::uint32_t said) {
    RawMessage m;
    m.options = {{57, u16(said)}};
    return message_bytes_max(*parse(m.bytes()));
  };
  EXPECT_EQ(longest(1472), 1444u);
  EXPECT_EQ(longest(576), 548u);
  EXPECT_EQ(longest(300), 548u); // smaller than any client may say
  EXPECT_EQ(longest(0), 548u);
  EXPECT_EQ(message_bytes_max(*parse(RawMessage{}.bytes())), 548u);
}

TEST(DhcpPacket, BuiltOnesHaveThreeHundredBytesAndTheTypeFirst) {
  Packet p;
  p.op = Op::Reply;
  p.mac = kMac;
  p.options[1] = u32(0xffffff00);
  p.options[53] = u8(2);
  const auto bytes = build(p, 548);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 300u);
  EXPECT_EQ(text_of(*bytes).substr(240, 3), "\x35\1\2");
}

TEST(DhcpPacket, BuiltOnesKeepToTheClientsLimit) {
  Packet p;
  p.options[67] = std::string(300, 'x'); // 2 pieces: 304 bytes, with cookie and end 545
  EXPECT_EQ(build(p, 545)->size(), 545u);
  EXPECT_FALSE(build(p, 544));
}

TEST(DhcpPacket, WhatIsBuiltIsReadBack) {
  std::mt19937 engine(7);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int round = 0; round < 300; ++round) {
    Packet p;
    p.op = random() % 2 ? Op::Reply : Op::Request;
    p.hops = static_cast<std::uint8_t>(random());
    p.xid = random();
    p.secs = static_cast<std::uint16_t>(random());
    p.flags = static_cast<std::uint16_t>(random());
    p.ciaddr = random(), p.yiaddr = random(), p.siaddr = random(), p.giaddr = random();
    for (auto& b : p.mac) b = static_cast<std::uint8_t>(random());
    p.file = std::string(random() % 128, 'f');
    p.sname = std::string(random() % 64, 's');
    for (int i = 0; i < 6; ++i) {
      const auto code = static_cast<std::uint8_t>(1 + random() % 254);
      if (code != option::kOverload) p.options[code] = std::string(random() % 400, static_cast<char>(random()));
    }
    const auto bytes = build(p, 65000);
    ASSERT_TRUE(bytes);
    const auto q = parse(*bytes);
    ASSERT_TRUE(q);
    EXPECT_EQ(q->op, p.op);
    EXPECT_EQ(q->xid, p.xid);
    EXPECT_EQ(q->flags, p.flags);
    EXPECT_EQ(q->giaddr, p.giaddr);
    EXPECT_EQ(q->mac, p.mac);
    EXPECT_EQ(q->file, p.file);
    EXPECT_EQ(q->sname, p.sname);
    EXPECT_EQ(q->options, p.options);
  }
}

} // namespace
} // namespace ductl::netboot::dhcp
