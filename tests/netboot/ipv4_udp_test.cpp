#include "netboot/ipv4_udp.hpp"

#include <gtest/gtest.h>

namespace ductl::netboot {
namespace {

constexpr UdpEnds kEnds{0x0a150101, 0x0a150165, 67, 68};

TEST(Ipv4Udp, WhatIsBuiltIsReadBackWithRightChecksums) {
  for (const std::size_t size : {0u, 1u, 2u, 301u, 1472u}) {
    Bytes payload(size, std::byte{0xa7});
    const Bytes packet = ipv4_udp_packet(kEnds, payload);
    const ByteView view(packet);
    ASSERT_EQ(packet.size(), 28 + size);
    EXPECT_EQ(internet_checksum({view.first(20)}), 0);
    const Bytes lengths = Writer().u16(17).u16(static_cast<std::uint32_t>(8 + size)).take();
    EXPECT_EQ(internet_checksum({view.subspan(12, 8), lengths, view.subspan(20)}), 0);
    const auto read = read_ipv4_udp(packet);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->ends, kEnds);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), read->payload.begin(), read->payload.end()));
  }
}

TEST(Ipv4Udp, AKnownPacket) { // RFC 1071's arithmetic, worked out by hand for an empty payload
  const Bytes packet = ipv4_udp_packet({0x01020304, 0x05060708, 1, 2}, {});
  EXPECT_EQ(
      packet,
      Writer().u32(0x4500001c).u32(0).u32(0x40116abe).u32(0x01020304).u32(0x05060708).u32(0x00010002).u32(0x0008efc7).take());
}

TEST(Ipv4Udp, CutsFragmentsAndOtherProtocolsAreRefused) {
  const Bytes sound = ipv4_udp_packet(kEnds, bytes_of("hello"));
  for (std::size_t length = 0; length < sound.size(); ++length) EXPECT_FALSE(read_ipv4_udp(ByteView(sound).first(length)));
  const auto changed = [&](std::size_t at, int value) {
    Bytes bytes = sound;
    bytes[at] = static_cast<std::byte>(value);
    return read_ipv4_udp(bytes);
  };
  EXPECT_FALSE(changed(0, 0x65));  // version 6
  EXPECT_FALSE(changed(0, 0x44));  // a header of 16 bytes
  EXPECT_FALSE(changed(6, 0x20));  // more fragments
  EXPECT_FALSE(changed(7, 0x01));  // an offset
  EXPECT_TRUE(changed(6, 0x40));   // do not fragment
  EXPECT_FALSE(changed(9, 6));     // TCP
  EXPECT_FALSE(changed(25, 0x40)); // UDP longer than the packet
  EXPECT_FALSE(changed(25, 7));    // shorter than its header
  Bytes padded = sound;
  padded.resize(46);
  EXPECT_EQ(read_ipv4_udp(padded)->payload.size(), 5u);
}

} // namespace
} // namespace ductl::netboot
