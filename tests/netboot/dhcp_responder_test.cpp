// Each kind of firmware against full and proxy mode: the table of docs/boot.md.
#include "sample_plan.hpp"

#include <gmock/gmock.h>

namespace ductl::netboot {
namespace {

using namespace test;
using namespace std::string_literals;
using dhcp::MessageType;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kScript1 = "http://10.21.1.1/boot/52-54-00-21-01-01.ipxe";
const std::string kSkipDiscovery = "\6\1\x08\x0a\4\0PXE\xff"s;

BootPlan plan_with(Chain chain) {
  BootPlan plan = sample_plan();
  for (BootDuck& duck : plan.ducks) duck.chain = chain;
  return plan;
}

// Full mode.

TEST(FullDhcp, EveryOfferHasTheDucksAddress) {
  Lab lab;
  for (const RawMessage& m : {bios_ipxe(kMac1), uefi_ipxe(kMac1), uefi_pxe(kMac1), uefi_http(kMac1), intel_rom(kMac1),
                              duck_agent(kMac1), disk_system(kMac1)}) {
    const auto offer = lab.answer(m);
    EXPECT_EQ(offer.op, dhcp::Op::Reply);
    EXPECT_EQ(offer.type(), MessageType::Offer);
    EXPECT_EQ(offer.xid, m.xid);
    EXPECT_EQ(offer.mac, kMac1);
    EXPECT_EQ(offer.yiaddr, kDuck1);
    EXPECT_EQ(offer.flags, m.flags);
    EXPECT_EQ(offer.address(54), kHost1);
    EXPECT_EQ(offer.address(1), 0xffffff00u);
    EXPECT_EQ(offer.address(51), 86400u);
    EXPECT_EQ(text(offer, 12), "duck1");
    EXPECT_GE(lab.sent[0].bytes.size(), 300u);
    EXPECT_LE(lab.sent[0].bytes.size(), 548u);
    EXPECT_EQ(lab.sent[0].from_port, 67);
    EXPECT_EQ(lab.sent[0].to_port, 68);
  }
}

TEST(FullDhcp, AckSaysWhatTheOfferSaid) {
  for (const auto make : {bios_ipxe, uefi_ipxe, uefi_pxe, uefi_http, intel_rom, duck_agent, disk_system}) {
    Lab lab;
    auto offer = lab.answer(make(kMac1));
    const auto ack = lab.answer(request_of(make(kMac1), kDuck1, kHost1));
    EXPECT_EQ(ack.type(), MessageType::Ack);
    EXPECT_EQ(ack.yiaddr, kDuck1);
    EXPECT_EQ(ack.file, offer.file);
    EXPECT_EQ(ack.siaddr, offer.siaddr);
    offer.options[53] = ack.options.at(53);
    EXPECT_EQ(ack.options, offer.options);
  }
}

TEST(FullDhcp, IpxeIsSentToItsScriptAndNeedNotWaitForAProxy) {
  for (const auto make : {bios_ipxe, uefi_ipxe}) {
    Lab lab;
    const auto offer = lab.answer(make(kMac1));
    EXPECT_EQ(text(offer, 67), kScript1);
    EXPECT_EQ(text(offer, 175), "\xb0\1\1\xff"s);
    EXPECT_EQ(offer.find(60), nullptr);
    EXPECT_EQ(offer.file, "");
    EXPECT_EQ(text(offer, 97).size(), 17u);
  }
}

TEST(FullDhcp, UefiPxeGetsIpxeByTftpWithoutOption60) {
  Lab lab;
  const auto offer = lab.answer(uefi_pxe(kMac1));
  EXPECT_EQ(offer.file, "ipxe.efi");
  EXPECT_EQ(text(offer, 67), "ipxe.efi");
  EXPECT_EQ(offer.siaddr, kHost1);
  EXPECT_EQ(offer.find(60), nullptr);
  EXPECT_EQ(offer.find(43), nullptr);
  EXPECT_EQ(offer.find(175), nullptr);
}

TEST(FullDhcp, BiosPxeGetsUndionly) {
  Lab lab;
  const auto offer = lab.answer(intel_rom(kMac1));
  EXPECT_EQ(offer.file, "undionly.kpxe");
  EXPECT_EQ(offer.siaddr, kHost1);
  EXPECT_EQ(offer.find(60), nullptr);
  EXPECT_EQ(offer.find(97), nullptr); // it sent none
}

TEST(FullDhcp, UefiHttpGetsTheUkiByUrl) {
  Lab lab;
  const auto offer = lab.answer(uefi_http(kMac1));
  EXPECT_EQ(text(offer, 60), "HTTPClient");
  EXPECT_EQ(text(offer, 67), "http://10.21.1.1/duck.efi");
  EXPECT_EQ(offer.file, "");
}

TEST(FullDhcp, TheAgentGetsAnAddressOnly) {
  Lab lab;
  const auto ack = lab.answer(request_of(duck_agent(kMac1), kDuck1, kHost1));
  EXPECT_EQ(ack.siaddr, 0u);
  EXPECT_EQ(ack.file, "");
  EXPECT_EQ(ack.find(67), nullptr);
  EXPECT_THAT(lab.last_text(BootEventKind::AgentAsked), HasSubstr("duck1"));
}

TEST(FullDhcp, AnotherSystemGetsItsAddressAndIsTold) {
  Lab lab;
  const auto ack = lab.answer(request_of(disk_system(kMac1), kDuck1, kHost1));
  EXPECT_EQ(ack.yiaddr, kDuck1);
  EXPECT_EQ(ack.find(67), nullptr);
  EXPECT_THAT(lab.last_text(BootEventKind::OtherSystem), HasSubstr("disk"));
}

TEST(FullDhcp, UrlsNameAnotherHttpPort) {
  BootPlan plan = sample_plan();
  plan.http_port = 8069;
  Lab lab(plan);
  EXPECT_EQ(text(lab.answer(uefi_http(kMac1)), 67), "http://10.21.1.1:8069/duck.efi");
}

// Chains.

TEST(Chains, Uki) {
  Lab lab(plan_with(Chain::Uki));
  EXPECT_EQ(lab.answer(uefi_pxe(kMac1)).file, "duck.efi");
  EXPECT_EQ(text(lab.answer(uefi_http(kMac1)), 67), "http://10.21.1.1/duck.efi");
  EXPECT_EQ(text(lab.answer(uefi_ipxe(kMac1)), 67), "http://10.21.1.1/duck.efi");
  EXPECT_EQ(text(lab.answer(bios_ipxe(kMac1)), 67), kScript1); // a BIOS starts no UKI
  EXPECT_EQ(lab.answer(intel_rom(kMac1)).file, "undionly.kpxe");
}

TEST(Chains, Ipxe) {
  Lab lab(plan_with(Chain::Ipxe));
  EXPECT_EQ(lab.answer(uefi_pxe(kMac1)).file, "ipxe.efi");
  EXPECT_EQ(text(lab.answer(uefi_http(kMac1)), 67), "http://10.21.1.1/ipxe.efi");
  EXPECT_EQ(text(lab.answer(uefi_ipxe(kMac1)), 67), kScript1);
}

TEST(Chains, HttpLeavesPxeUnansweredAndSaysSoOnce) {
  Lab lab(plan_with(Chain::Http));
  EXPECT_THAT(lab.receive(uefi_pxe(kMac1)), IsEmpty());
  EXPECT_THAT(lab.receive(uefi_pxe(kMac1)), IsEmpty());
  EXPECT_EQ(lab.count(BootEventKind::Ignored), 1);
  EXPECT_THAT(lab.receive(intel_rom(kMac2)), IsEmpty());
  EXPECT_EQ(text(lab.answer(uefi_http(kMac1)), 67), "http://10.21.1.1/duck.efi");
}

TEST(Chains, ThirtyTwoBitUefiIsIgnoredWithAReason) {
  Lab lab;
  EXPECT_THAT(lab.receive(uefi_pxe(kMac1).with(93, u16(6))), IsEmpty());
  EXPECT_THAT(lab.last_text(BootEventKind::Ignored), HasSubstr("32-bit UEFI"));
}

TEST(Chains, EachDuckHasItsOwn) {
  BootPlan plan = sample_plan();
  plan.ducks[1].chain = Chain::Uki;
  Lab lab(plan);
  EXPECT_EQ(lab.answer(uefi_pxe(kMac1)).file, "ipxe.efi");
  EXPECT_EQ(lab.answer(uefi_pxe(kMac2)).file, "duck.efi");
}

// Where answers go. RFC 2131 section 4.1.

TEST(Delivery, BroadcastWhereTheFlagAsksForIt) {
  Lab lab;
  (void)lab.answer(uefi_pxe(kMac1));
  EXPECT_EQ(lab.sent[0].to, 0xffffffffu);
  EXPECT_EQ(lab.sent[0].hardware, std::nullopt);
}

TEST(Delivery, ToTheMacWhereItDoesNot) {
  Lab lab;
  (void)lab.answer(bios_ipxe(kMac1));
  EXPECT_EQ(lab.sent[0].to, kDuck1);
  EXPECT_EQ(lab.sent[0].hardware, kMac1);
}

TEST(Delivery, ToItsAddressWhenItRenews) {
  Lab lab;
  RawMessage renewal = duck_agent(kMac1).with(53, u8(3));
  renewal.ciaddr = kDuck1;
  const auto ack = lab.answer(renewal, 0, 67, kDuck1);
  EXPECT_EQ(ack.type(), MessageType::Ack);
  EXPECT_EQ(ack.ciaddr, kDuck1);
  EXPECT_EQ(lab.sent[0].to, kDuck1);
  EXPECT_EQ(lab.sent[0].to_port, 68);
  EXPECT_EQ(lab.sent[0].hardware, std::nullopt);
}

TEST(Delivery, ToTheRelay) {
  Lab lab;
  RawMessage relayed = uefi_pxe(kMac1);
  relayed.giaddr = 0x0a1501fe;
  relayed.hops = 1;
  const auto offer = lab.answer(relayed, 1); // comes in wherever the relay is
  EXPECT_EQ(offer.giaddr, relayed.giaddr);
  EXPECT_EQ(offer.hops, 0);
  EXPECT_EQ(offer.yiaddr, kDuck1);
  EXPECT_EQ(lab.sent[0].to, relayed.giaddr);
  EXPECT_EQ(lab.sent[0].to_port, 67);
  EXPECT_EQ(lab.sent[0].port_index, 1);
  RawMessage wrong = request_of(relayed, kDuck2, kHost1);
  wrong.flags = 0;
  const auto nak = lab.answer(wrong, 1);
  EXPECT_EQ(nak.type(), MessageType::Nak);
  EXPECT_TRUE(nak.wants_broadcast());
  EXPECT_EQ(lab.sent[0].to, relayed.giaddr);
}

// REQUESTs.

TEST(Requests, ForAnotherAddressAreRefused) {
  Lab lab;
  const auto nak = lab.answer(request_of(bios_ipxe(kMac1), kDuck2, kHost1));
  EXPECT_EQ(nak.type(), MessageType::Nak);
  EXPECT_EQ(nak.yiaddr, 0u);
  EXPECT_EQ(nak.siaddr, 0u);
  EXPECT_EQ(nak.find(51), nullptr);
  EXPECT_EQ(lab.sent[0].to, 0xffffffffu);
  EXPECT_EQ(lab.sent[0].hardware, std::nullopt);
  EXPECT_THAT(lab.last_text(BootEventKind::Refused), HasSubstr("10.21.1.102"));
}

TEST(Requests, AfterARebootAreJudgedWithoutAServersName) { // INIT-REBOOT
  Lab lab;
  RawMessage m = duck_agent(kMac1).with(53, u8(3)).with(50, u32(kDuck1));
  EXPECT_EQ(lab.answer(m).type(), MessageType::Ack);
  EXPECT_EQ(lab.answer(m.with(50, u32(0xc0a80005))).type(), MessageType::Nak);
}

TEST(Requests, ToAnotherServerAreLeftToItAndTold) {
  Lab lab;
  EXPECT_THAT(lab.receive(request_of(bios_ipxe(kMac1), 0x0a150177, 0x0a150109)), IsEmpty());
  EXPECT_THAT(lab.last_text(BootEventKind::ForeignServer), HasSubstr("10.21.1.9"));
  EXPECT_FALSE(lab.told(BootEventKind::Leased));
}

TEST(Requests, WithoutAnAddressAreNotAnswered) {
  Lab lab;
  EXPECT_THAT(lab.receive(duck_agent(kMac1).with(53, u8(3))), IsEmpty());
}

TEST(Requests, InformGetsTheBootFileWithoutALease) {
  Lab lab;
  RawMessage m = uefi_pxe(kMac1).with(53, u8(8));
  m.ciaddr = kDuck1;
  const auto ack = lab.answer(m);
  EXPECT_EQ(ack.type(), MessageType::Ack);
  EXPECT_EQ(ack.yiaddr, 0u);
  EXPECT_EQ(ack.find(51), nullptr);
  EXPECT_EQ(ack.file, "ipxe.efi");
  EXPECT_EQ(lab.sent[0].to, kDuck1);
}

TEST(Requests, DeclineIsAConflict) {
  Lab lab;
  EXPECT_THAT(lab.receive(duck_agent(kMac1).with(53, u8(4)).with(50, u32(kDuck1))), IsEmpty());
  EXPECT_TRUE(lab.told(BootEventKind::Conflict));
}

TEST(Requests, WhatOnlyServersSayAndBootpAreNotAnswered) {
  Lab lab;
  for (const int type : {2, 5, 6, 7}) EXPECT_THAT(lab.receive(uefi_pxe(kMac1).with(53, u8(type))), IsEmpty()) << type;
  EXPECT_THAT(lab.receive(uefi_pxe(kMac1).without(53)), IsEmpty());
}

// Strangers.

TEST(Strangers, AreNotAnsweredAndReportedOnceInAWhile) {
  Lab lab;
  for (int i = 0; i < 5; ++i) EXPECT_THAT(lab.receive(uefi_pxe(kStranger)), IsEmpty());
  EXPECT_EQ(lab.count(BootEventKind::UnknownMac), 1);
  EXPECT_EQ(lab.last_text(BootEventKind::UnknownMac),
            "unknown MAC 52:54:00:21:09:09 on br1 asks to boot (UEFI PXE): add it to the inventory?");
  lab.now += BootWatch::kStrangerRepeat;
  EXPECT_THAT(lab.receive(uefi_pxe(kStranger)), IsEmpty());
  EXPECT_EQ(lab.count(BootEventKind::UnknownMac), 2);
  EXPECT_EQ(lab.responder.counts().unknown, 6u);
}

TEST(Strangers, ByTheThousandTakeNoMemoryAndNoLog) {
  Lab lab;
  for (int i = 0; i < 5000; ++i) {
    Mac mac = kStranger;
    mac[3] = static_cast<std::uint8_t>(i >> 8), mac[4] = static_cast<std::uint8_t>(i);
    (void)lab.receive(uefi_pxe(mac));
  }
  EXPECT_EQ(lab.count(BootEventKind::UnknownMac), static_cast<long>(BootWatch::kStrangersMax));
}

TEST(Strangers, ADuckOnTheWrongPortIsNotAnsweredAndNamed) {
  Lab lab;
  EXPECT_THAT(lab.receive(uefi_pxe(kMac1), 1), IsEmpty());
  EXPECT_THAT(lab.last_text(BootEventKind::WrongPort), HasSubstr("duck1 asks on port2, and the inventory has it on port1"));
}

TEST(Strangers, MalformedMessagesAreCounted) {
  Lab lab;
  const Bytes junk(500, std::byte{7});
  EXPECT_THAT(lab.responder.receive({junk, 0, 67, 0, 68}, lab.now), IsEmpty());
  EXPECT_EQ(lab.responder.counts().malformed, 1u);
  EXPECT_THAT(lab.events, IsEmpty());
}

// Proxy mode.

TEST(ProxyDhcp, OffersHaveNoAddressAndGoToAll) {
  Lab lab;
  for (const RawMessage& m : {bios_ipxe(kMac3), uefi_ipxe(kMac3), uefi_pxe(kMac3), uefi_http(kMac3), intel_rom(kMac3)}) {
    const auto offer = lab.answer(m, 1);
    EXPECT_EQ(offer.type(), MessageType::Offer);
    EXPECT_EQ(offer.yiaddr, 0u);
    EXPECT_EQ(offer.siaddr, kHost2);
    EXPECT_EQ(offer.sname, "10.21.2.1");
    EXPECT_EQ(offer.address(54), kHost2);
    EXPECT_EQ(offer.find(51), nullptr);
    EXPECT_EQ(offer.find(1), nullptr);
    EXPECT_TRUE(offer.wants_broadcast());
    EXPECT_EQ(lab.sent[0].to, 0xffffffffu);
    EXPECT_GE(lab.sent[0].bytes.size(), 300u);
  }
}

TEST(ProxyDhcp, IpxeFindsItsScriptInTheFileField) {
  Lab lab;
  const auto offer = lab.answer(bios_ipxe(kMac3), 1);
  EXPECT_EQ(offer.file, "http://10.21.2.1/boot/52-54-00-21-02-01.ipxe");
  EXPECT_EQ(text(offer, 60), "PXEClient");
  EXPECT_EQ(text(offer, 43), kSkipDiscovery);
  EXPECT_EQ(text(offer, 97).size(), 17u);
}

TEST(ProxyDhcp, UefiPxeSkipsDiscoveryOrComesTo4011) {
  BootPlan plan = sample_plan();
  plan.ducks[3].proxy_style = ProxyStyle::Port4011;
  Lab lab(plan);
  const auto bypass = lab.answer(uefi_pxe(kMac3), 1);
  EXPECT_EQ(bypass.file, "ipxe.efi");
  EXPECT_EQ(text(bypass, 43), kSkipDiscovery);
  const auto later = lab.answer(uefi_pxe(kMac4), 1);
  EXPECT_EQ(later.file, "");
  EXPECT_EQ(text(later, 60), "PXEClient");
  EXPECT_EQ(later.find(43), nullptr);
}

TEST(ProxyDhcp, BiosPxeSkipsDiscovery) {
  Lab lab;
  const auto offer = lab.answer(intel_rom(kMac3), 1);
  EXPECT_EQ(offer.file, "undionly.kpxe");
  EXPECT_EQ(text(offer, 43), kSkipDiscovery);
}

TEST(ProxyDhcp, UefiHttpGetsItsUrl) {
  Lab lab;
  const auto offer = lab.answer(uefi_http(kMac3), 1);
  EXPECT_EQ(text(offer, 60), "HTTPClient");
  EXPECT_EQ(text(offer, 67), "http://10.21.2.1/duck.efi");
  EXPECT_EQ(offer.find(43), nullptr);
}

TEST(ProxyDhcp, Port4011AnswersToWhereItWasAskedFrom) {
  Lab lab;
  const auto ack = lab.answer(proxy_request_of(uefi_pxe(kMac4), 0x0a1502c8), 1, 4011, 0x0a1502c8, 4011);
  EXPECT_EQ(ack.type(), MessageType::Ack);
  EXPECT_EQ(ack.siaddr, kHost2);
  EXPECT_EQ(ack.ciaddr, 0x0a1502c8u);
  EXPECT_EQ(ack.sname, "10.21.2.1");
  EXPECT_EQ(ack.file, "ipxe.efi");
  EXPECT_EQ(text(ack, 60), "PXEClient");
  EXPECT_EQ(ack.find(43), nullptr);
  EXPECT_EQ(lab.sent[0].from_port, 4011);
  EXPECT_EQ(lab.sent[0].to, 0x0a1502c8u);
  EXPECT_EQ(lab.sent[0].to_port, 4011);
  EXPECT_EQ(lab.responder.duck_at(0x0a1502c8), 3); // the plan does not know its address
}

TEST(ProxyDhcp, Port4011EchoesTheMenuItemThatWasChosen) {
  Lab lab;
  const auto ask = proxy_request_of(intel_rom(kMac3), kDuck3).with(43, "\x47\4\0\7\0\0\xff"s);
  EXPECT_EQ(text(lab.answer(ask, 1, 4011, kDuck3, 68), 43), "\x47\4\0\7\0\0\xff"s);
  EXPECT_EQ(lab.sent[0].to_port, 68);
  const auto broken = proxy_request_of(intel_rom(kMac3), kDuck3).with(43, "\x47\x40\0"s);
  EXPECT_EQ(lab.answer(broken, 1, 4011, kDuck3, 68).find(43), nullptr);
}

TEST(ProxyDhcp, Port4011IsServedInFullModeToo) {
  Lab lab;
  const auto ack = lab.answer(proxy_request_of(uefi_pxe(kMac1), kDuck1), 0, 4011, kDuck1, 4011);
  EXPECT_EQ(ack.file, "ipxe.efi");
  EXPECT_EQ(ack.yiaddr, 0u);
}

TEST(ProxyDhcp, RequestsAreTheOtherServersAndTellTheAddress) {
  Lab lab;
  EXPECT_THAT(lab.receive(request_of(uefi_pxe(kMac4), 0x0a1502c9, kRouter), 1), IsEmpty());
  EXPECT_EQ(lab.responder.duck_at(0x0a1502c9), 3);
  EXPECT_EQ(lab.responder.duck_at(0x0a1502ca), std::nullopt);
  EXPECT_FALSE(lab.told(BootEventKind::Refused));
}

TEST(ProxyDhcp, TheAgentAndOtherSystemsAreLeftAlone) {
  Lab lab;
  EXPECT_THAT(lab.receive(duck_agent(kMac3), 1), IsEmpty());
  EXPECT_THAT(lab.receive(disk_system(kMac3), 1), IsEmpty());
  EXPECT_THAT(lab.receive(request_of(duck_agent(kMac3), kDuck3, kRouter), 1), IsEmpty());
  EXPECT_EQ(lab.count(BootEventKind::AgentAsked), 1);
}

// Overheard.

TEST(Overheard, OffersOfOthersAreReportedOncePerServer) {
  Lab lab;
  RawMessage offer;
  offer.op = 2;
  offer.mac = kMac1;
  offer.with(53, u8(2)).with(54, u32(0x0a1501fd));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(lab.receive(offer, 0, 68), IsEmpty());
  EXPECT_EQ(lab.count(BootEventKind::ForeignServer), 1);
  EXPECT_THAT(lab.last_text(BootEventKind::ForeignServer), HasSubstr("10.21.1.253"));
  EXPECT_THAT(lab.receive(offer.with(54, u32(kHost1)), 0, 68), IsEmpty()); // our own
  EXPECT_EQ(lab.count(BootEventKind::ForeignServer), 1);
}

} // namespace
} // namespace ductl::netboot
