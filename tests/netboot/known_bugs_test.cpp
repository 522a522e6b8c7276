// Bugs that other boot servers had, as their public reports tell them: each is a test of ours. Numbers are those of docs/boot.md.
#include "netboot/tftp/sessions.hpp"

#include "sample_plan.hpp"
#include "tftp_client.hpp"

#include <gmock/gmock.h>

namespace ductl::netboot {
namespace {

using namespace test;
using namespace std::string_literals;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct TftpLab {
  explicit TftpLab(std::size_t size) : sessions(files, events, [](Ipv4 a) { return inventory::to_string(a); }) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    files.add("duck.efi", BootFile::from_bytes(bytes).value());
  }
  // The whole conversation over a network that loses nothing.
  void fetch(TftpClient& client) {
    auto opened = sessions.open({0, kDuck1, 2000}, client.request("duck.efi"), 1468, now);
    std::vector<Bytes> down = std::move(opened.packets);
    while (!down.empty()) {
      std::vector<Bytes> next;
      for (const Bytes& packet : down)
        for (const Bytes& answer : client.feed(packet))
          for (Bytes& more : sessions.feed(*opened.session, answer, now)) next.push_back(std::move(more));
      down = std::move(next);
    }
  }
  BootFiles files;
  std::vector<BootEvent> events;
  tftp::Sessions sessions;
  Instant now{1h};
};

TEST(KnownBug01, Edk2_8149_PxeClientWithoutOption43SendsUefiTo4011) {
  Lab lab;
  const auto full = lab.answer(uefi_pxe(kMac1));
  EXPECT_FALSE(full.find(60) != nullptr && full.find(43) == nullptr);
  const auto ack = lab.answer(request_of(uefi_pxe(kMac1), kDuck1, kHost1));
  EXPECT_FALSE(ack.find(60) != nullptr && ack.find(43) == nullptr);
  // And should it come to 4011 all the same, somebody answers.
  EXPECT_EQ(lab.answer(proxy_request_of(uefi_pxe(kMac1), kDuck1), 0, 4011, kDuck1, 4011).file, "ipxe.efi");
}

TEST(KnownBug02, Netboot_43_FirmwareThatIgnoresTheBypassComesTo4011) {
  BootPlan plan = sample_plan();
  plan.ducks[2].proxy_style = ProxyStyle::Port4011;
  Lab lab(plan);
  const auto offer = lab.answer(uefi_pxe(kMac3), 1);
  EXPECT_EQ(offer.find(43), nullptr);
  EXPECT_EQ(offer.file, "");
  const auto ack = lab.answer(proxy_request_of(uefi_pxe(kMac3), kDuck3), 1, 4011, kDuck3, 4011);
  EXPECT_EQ(ack.file, "ipxe.efi");
  EXPECT_EQ(ack.sname, "10.21.2.1");
}

TEST(KnownBug03, Bootimus_77_TwoServersAndNeverARequestIsToldWithTheOtherServersName) {
  Lab lab;
  RawMessage other;
  other.op = 2;
  other.mac = kMac3;
  other.with(53, u8(2)).with(54, u32(kRouter));
  (void)lab.receive(other, 1, 68);
  for (std::uint32_t i = 0; i < 6; ++i) {
    RawMessage m = uefi_pxe(kMac3);
    m.secs = static_cast<std::uint16_t>(4 * i);
    (void)lab.answer(m, 1);
    lab.now += 8s;
  }
  EXPECT_EQ(lab.count(BootEventKind::NoRequest), 1);
  EXPECT_THAT(lab.last_text(BootEventKind::NoRequest),
              HasSubstr("duck3: 4 DISCOVERs answered, no REQUEST; 10.21.2.2 answers as well"));
  (void)lab.receive(request_of(uefi_pxe(kMac3), kDuck3, kRouter), 1); // it works at last
  for (int i = 0; i < 3; ++i) (void)lab.answer(uefi_pxe(kMac3), 1);
  EXPECT_EQ(lab.count(BootEventKind::NoRequest), 1);
}

TEST(KnownBug04, Ipxe_908_IpxeIsNeverGivenIpxe) {
  for (const Chain chain : {Chain::Auto, Chain::Ipxe, Chain::Uki, Chain::Http}) {
    BootPlan plan = sample_plan();
    for (BootDuck& duck : plan.ducks) duck.chain = chain;
    for (const std::uint32_t arch : {0u, 2u, 6u, 7u, 8u, 9u, 15u, 16u}) {
      for (const std::string& user_class : {"iPXE"s, "\4iPXE"s, "(none)"s}) { // bare, as RFC 3004 has it, and option 175 alone
        Lab lab(plan);
        RawMessage m = uefi_ipxe(kMac1).with(93, u16(arch));
        if (user_class == "(none)")
          m.without(77);
        else
          m.with(77, user_class).without(175);
        const auto offer = lab.answer(m);
        EXPECT_EQ(offer.file, "");
        EXPECT_THAT(text(offer, 67),
                    ::testing::AnyOf("http://10.21.1.1/boot/52-54-00-21-01-01.ipxe", "http://10.21.1.1/duck.efi"));
      }
    }
  }
}

TEST(KnownBug04, Xcat_7645_Arch7And9AreTheSame) {
  Lab lab;
  for (const std::uint32_t arch : {7u, 9u}) EXPECT_EQ(lab.answer(uefi_pxe(kMac1).with(93, u16(arch))).file, "ipxe.efi");
}

TEST(KnownBug04, ABootLoopIsNoticedAndSaysHowFarItCame) {
  Lab lab;
  for (std::uint32_t boot = 0; boot < 3; ++boot) {
    RawMessage firmware = uefi_pxe(kMac1), ipxe = uefi_ipxe(kMac1);
    firmware.xid = 100 + boot;
    ipxe.xid = 200 + boot;
    (void)lab.answer(firmware);
    (void)lab.answer(firmware); // repeats are no starts
    (void)lab.answer(request_of(firmware, kDuck1, kHost1));
    (void)lab.answer(ipxe);
    (void)lab.answer(request_of(ipxe, kDuck1, kHost1));
    lab.watch.kernel_fetched(0);
    lab.now += 40s;
    EXPECT_EQ(lab.count(BootEventKind::BootLoop), boot < 2 ? 0 : 1);
  }
  EXPECT_THAT(lab.last_text(BootEventKind::BootLoop), HasSubstr("duck1 has started to boot 3 times in 1.3 minutes"));
  EXPECT_THAT(lab.last_text(BootEventKind::BootLoop), HasSubstr("the kernel was fetched and no agent came up"));
  EXPECT_EQ(lab.count(BootEventKind::Asked), 3);
}

TEST(KnownBug04, BootsThatReachTheirAgentAreNoLoop) {
  Lab lab;
  for (std::uint32_t boot = 0; boot < 8; ++boot) {
    RawMessage ipxe = bios_ipxe(kMac1);
    ipxe.xid = 300 + boot;
    (void)lab.answer(ipxe);
    (void)lab.answer(duck_agent(kMac1));
    lab.now += 20s;
  }
  EXPECT_FALSE(lab.told(BootEventKind::BootLoop));
  EXPECT_EQ(lab.count(BootEventKind::Asked), 8);
}

TEST(KnownBug04, SlowBootsAreNoLoop) {
  Lab lab;
  for (std::uint32_t boot = 0; boot < 8; ++boot) {
    RawMessage ipxe = bios_ipxe(kMac1);
    ipxe.xid = 300 + boot;
    (void)lab.answer(ipxe);
    lab.now += lab.plan.loop_rule.window / 2 + 1s;
  }
  EXPECT_FALSE(lab.told(BootEventKind::BootLoop));
}

TEST(KnownBug05, PinTftp_125_AskingForTheSizeAndHangingUpIsNoFailure) {
  TftpLab lab(850'000);
  const std::string probe = "\0\1duck.efi\0octet\0tsize\0000\0blksize\0001468\0windowsize\0004\0"s;
  const auto opened = lab.sessions.open({0, kDuck1, 2000}, bytes_of(probe), 1468, lab.now);
  EXPECT_EQ(text_of(opened.packets.at(0)), "\0\6tsize\000850000\0blksize\0001468\0windowsize\0004\0"s);
  (void)lab.sessions.feed(*opened.session, bytes_of("\0\5\0\x08User aborted the transfer\0"s), lab.now);
  EXPECT_EQ(lab.sessions.counts().probes, 1u);
  EXPECT_EQ(lab.sessions.counts().failed, 0u);
  EXPECT_THAT(lab.events, IsEmpty());
  TftpClient client({1468, 4, false}); // and the real one
  lab.fetch(client);
  EXPECT_TRUE(client.done());
}

TEST(KnownBug06, Uftpd_45_BlockNumbersWrap) {
  for (const std::uint32_t window : {1u, 5u, 32u}) {
    TftpLab lab(600 * 1024); // 76801 blocks of 8 bytes
    TftpClient client({8, window, false});
    lab.fetch(client);
    ASSERT_TRUE(client.done());
    const ByteView sent = lab.files.find("duck.efi")->bytes();
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), client.file().begin(), client.file().end()));
  }
}

TEST(KnownBug07, CrowbarCore_1078_BlocksFitTheWire) {
  TftpLab lab(100'000);
  TftpClient client({65464, {}, false});
  lab.fetch(client);
  EXPECT_EQ(client.block_bytes(), 1468u); // the MTU of Ethernet without 32 bytes of headers
  EXPECT_EQ(client.file().size(), 100'000u);
  TftpClient small({1000, {}, false});
  lab.fetch(small);
  EXPECT_EQ(small.block_bytes(), 1000u); // never larger than asked
}

TEST(KnownBug08, Edk2_7264_WindowsAreGranted) {
  TftpLab lab(100'000);
  TftpClient client({1468, 4, false});
  lab.fetch(client);
  EXPECT_EQ(client.window_blocks(), 4u);
  EXPECT_TRUE(client.done());
}

TEST(KnownBug09, Netboot_50_EveryFetchOfTheScriptHasAnotherTry) {
  const BootPlan plan = sample_plan();
  for (const std::string& script : {boot_script(plan, plan.ducks[0], {"k", "i"}), autoexec_script(plan)}) {
    std::size_t fetches = 0;
    for (std::size_t at = 0; at < script.size();) {
      const std::string line = script.substr(at, script.find('\n', at) - at);
      at += line.size() + 1;
      const bool may_fail = line.starts_with("kernel ") || line.starts_with("initrd ") || line.starts_with("chain ") ||
                            line == "boot" || line.starts_with("boot ") || line.starts_with("ifopen ");
      if (!may_fail) continue;
      ++fetches;
      EXPECT_THAT(line, ::testing::EndsWith(" || goto again"));
    }
    EXPECT_GE(fetches, 2u);
    EXPECT_THAT(script, HasSubstr("\n:again\n"));
    EXPECT_THAT(script, HasSubstr("\nsleep 3\ngoto start\n"));
    EXPECT_THAT(script, HasSubstr("\nreboot || exit\n"));
  }
}

TEST(KnownBug10, Tinkerbell_424_WhatIsNotServedIsRefusedAtOnce) {
  TftpLab lab(10);
  const auto opened =
      lab.sessions.open({0, kDuck1, 2000}, bytes_of("\0\1autoexec.ipxe\0octet\0blksize\0001432\0tsize\0000\0"s), 1468, lab.now);
  EXPECT_FALSE(opened.session);
  EXPECT_EQ(text_of(opened.packets.at(0)).substr(0, 4), "\0\5\0\1"s);
}

TEST(KnownBug11, Pixiecore_21_RomsWithoutOption97Or94) {
  for (const auto& m : {intel_rom(kMac1).without(94), intel_rom(kMac1).without(93), intel_rom(kMac1).without(55)}) {
    Lab lab;
    EXPECT_EQ(lab.answer(m).file, "undionly.kpxe");
  }
  Lab lab; // of a wrong length or type it is as good as none
  EXPECT_EQ(lab.answer(intel_rom(kMac1).with(97, std::string(5, '\0'))).find(97), nullptr);
  EXPECT_EQ(lab.answer(intel_rom(kMac1).with(97, std::string(17, '\1'))).find(97), nullptr);
  EXPECT_EQ(text(lab.answer(intel_rom(kMac1).with(97, std::string(17, '\0'))), 97), std::string(17, '\0'));
}

TEST(KnownBug11, NetbootXyz_8_Arch2And8AreUefi) {
  Lab lab;
  for (const std::uint32_t arch : {2u, 8u}) EXPECT_EQ(lab.answer(uefi_pxe(kMac1).with(93, u16(arch))).file, "ipxe.efi");
  EXPECT_EQ(lab.answer(uefi_pxe(kMac1).with(93, u16(6) + u16(7))).file, "ipxe.efi"); // a list
}

TEST(KnownBug12, Coreos_1432_TheAddressDependsOnTheMacAlone) {
  Lab lab;
  for (const std::string& id : {"\1\x52\x54\0\x21\1\1"s, "\xff\1\2\3\4\0\4abcdefghijklmnop"s, "\1"s}) {
    EXPECT_EQ(lab.answer(duck_agent(kMac1).with(61, id)).yiaddr, kDuck1);
    EXPECT_EQ(lab.answer(duck_agent(kMac2).with(61, id)).yiaddr, kDuck2); // somebody else's id
  }
  Lab restarted;
  EXPECT_EQ(restarted.answer(request_of(duck_agent(kMac1), kDuck1, kHost1)).yiaddr, kDuck1);
}

TEST(KnownBug13, Xcat_1972_LeasesAreRenewed) {
  BootPlan plan = sample_plan();
  plan.lease = 20s;
  Lab lab(plan);
  for (int renewal = 0; renewal < 50; ++renewal) {
    RawMessage m = duck_agent(kMac1).with(53, u8(3));
    m.ciaddr = kDuck1;
    const auto ack = lab.answer(m, 0, 67, kDuck1);
    ASSERT_EQ(ack.type(), dhcp::MessageType::Ack);
    EXPECT_EQ(ack.address(51), 20u);
    lab.now += 10s;
  }
}

TEST(KnownBug14, Xcat_1638_ALateDiscoverIsAnsweredLikeAnEarlyOne) { // a port with spanning tree
  Lab lab;
  RawMessage m = duck_agent(kMac1);
  m.secs = 119;
  EXPECT_EQ(lab.answer(m).yiaddr, kDuck1);
}

TEST(KnownBug20, Warewulf_1240_AWrongPlanIsRefusedBeforeTheFirstPacket) {
  BootPlan plan = sample_plan();
  plan.ducks[1].address = kDuck1;
  const auto checked = check_plan(plan);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kInventoryDuplicate);
  EXPECT_EQ(checked.error().place, "duck2");
}

TEST(KnownBugExtra, Smee_228_FullModeNeverSaysPxeClient) {
  Lab lab;
  for (const auto make : {bios_ipxe, uefi_ipxe, uefi_pxe, uefi_http, intel_rom, duck_agent})
    EXPECT_NE(text(lab.answer(make(kMac1)), 60), "PXEClient");
}

TEST(KnownBugExtra, Shim_618_BlocksOf512) {
  TftpLab lab(20'000);
  TftpClient client({});
  lab.fetch(client);
  EXPECT_EQ(client.block_bytes(), 512u);
  EXPECT_TRUE(client.done());
}

TEST(KnownBugExtra, Fogproject_596_TheOfferHasAPromptBesideTheBypass) { // PXE-E74
  Lab lab;
  EXPECT_THAT(text(lab.answer(intel_rom(kMac3), 1), 43), HasSubstr("\x0a\4\0PXE"s));
}

TEST(KnownBugExtra, Xcat_1222_UefiThroughARelay) {
  Lab lab;
  RawMessage m = uefi_pxe(kMac1);
  m.giaddr = 0x0a1501fe;
  EXPECT_EQ(lab.answer(m).giaddr, m.giaddr);
  EXPECT_EQ(lab.sent[0].to, m.giaddr);
  EXPECT_EQ(lab.sent[0].to_port, 67);
}

} // namespace
} // namespace ductl::netboot
