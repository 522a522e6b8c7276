// Magic packets: as bytes, as a schedule, and on a wire of the test's own.
#include "ductl/power/magic_packet.hpp"
#include "ductl/power/wake_on_lan.hpp"
#include "ductl/power/wake_schedule.hpp"

#include "tests/netboot/own_network.hpp"

#include <gmock/gmock.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ductl::power {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr inventory::Mac kMac{0x52, 0x54, 0, 0x21, 1, 7};
const Instant kStart{1h};

TEST(MagicPacket, IsSixBytesOfOnesAndSixteenTimesTheMac) {
  const std::vector<std::uint8_t> pattern = magic_pattern(kMac);
  ASSERT_EQ(pattern.size(), 102u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(pattern[i], 0xff);
  for (std::size_t i = 6; i < pattern.size(); ++i) EXPECT_EQ(pattern[i], kMac[i % 6]) << i;
}

TEST(MagicPacket, TheFrameGoesToEveryoneWithItsOwnEthertype) {
  const std::vector<std::uint8_t> frame = magic_frame(kMac, {2, 0, 0, 0, 0, 1});
  ASSERT_EQ(frame.size(), 116u);
  EXPECT_EQ(std::vector<std::uint8_t>(frame.begin(), frame.begin() + 6), std::vector<std::uint8_t>(6, 0xff));
  EXPECT_EQ(frame[6], 2);
  EXPECT_EQ(frame[12] << 8 | frame[13], 0x0842);
}

TEST(MagicPacket, GoesToTheBroadcastAddressOfThePortsSubnet) {
  inventory::Port port;
  port.address = 0x0a150101;
  EXPECT_EQ(inventory::to_string(directed_broadcast(port)), "10.21.1.255");
  port.prefix_length = 26;
  EXPECT_EQ(inventory::to_string(directed_broadcast(port)), "10.21.1.63");
}

TEST(WakeSchedule, SendsABurstThenRarerOnesUntilTheDuckIsHeardOf) {
  WakeSchedule schedule;
  schedule.want(3, 0, kStart);
  std::vector<int> sent_at_ms;
  for (Instant now = kStart; now < kStart + 100s; now = std::max(now + 1ms, schedule.deadline().value()))
    for (const std::size_t duck : schedule.due(now)) {
      EXPECT_EQ(duck, 3u);
      sent_at_ms.push_back(static_cast<int>((now - kStart) / 1ms));
    }
  EXPECT_THAT(sent_at_ms,
              ElementsAre(0, 100, 200, 10200, 10300, 10400, 30400, 30500, 30600, 60600, 60700, 60800, 90800, 90900, 91000));
  schedule.done(3);
  EXPECT_FALSE(schedule.deadline());
  EXPECT_THAT(schedule.due(kStart + 1h), IsEmpty());
}

TEST(WakeSchedule, DucksOfOnePortStartOneAfterTheOther) {
  WakeSchedule schedule;
  for (std::size_t duck = 0; duck < 3; ++duck) schedule.want(duck, 0, kStart);
  schedule.want(9, 1, kStart); // another port, another power strip
  EXPECT_THAT(schedule.due(kStart), ElementsAre(0u, 9u));
  EXPECT_THAT(schedule.due(kStart + 99ms), IsEmpty());
  EXPECT_THAT(schedule.due(kStart + 250ms), ElementsAre(0u, 1u, 9u));
  EXPECT_THAT(schedule.due(kStart + 500ms), ElementsAre(0u, 1u, 2u, 9u));
}

TEST(WakeSchedule, WantingTwiceSendsNoMore) {
  WakeSchedule schedule;
  schedule.want(0, 0, kStart);
  (void)schedule.due(kStart);
  schedule.want(0, 0, kStart + 1ms);
  EXPECT_THAT(schedule.due(kStart + 2ms), IsEmpty());
}

// Whoever asks late gets one packet a duck, not all that were missed.
TEST(WakeSchedule, NothingIsMadeUpFor) {
  WakeSchedule schedule;
  schedule.want(0, 0, kStart);
  EXPECT_THAT(schedule.due(kStart + 1h), ElementsAre(0u));
  EXPECT_THAT(schedule.due(kStart + 1h), IsEmpty());
}

struct OnTheWire : ::testing::Test {
  void SetUp() override {
    if (const std::string why = netboot::test::enter_own_network(); !why.empty()) GTEST_SKIP() << why;
  }
  static inventory::Port port() { return {.name = "port1", .interface = "wol1", .address = 0x0a150101, .prefix_length = 24}; }
  static inventory::Duck duck() {
    inventory::Duck duck;
    duck.name = "duck1";
    duck.mac = kMac;
    return duck;
  }
};

bool holds_pattern(netboot::ByteView bytes) {
  const std::vector<std::uint8_t> pattern = magic_pattern(kMac);
  return bytes.size() == pattern.size() &&
         std::equal(pattern.begin(), pattern.end(), bytes.begin(),
                    [](std::uint8_t a, std::byte b) { return a == std::to_integer<std::uint8_t>(b); });
}

TEST_F(OnTheWire, ADuckIsSentBothForms) {
  netboot::test::Cable cable("wol1", 0x0a150101);
  const auto driver = make_wake_on_lan_driver({port()});
  ASSERT_TRUE(driver->check(duck()));
  const auto sent = driver->on(duck());
  ASSERT_TRUE(sent) << sent.error().text();

  const auto frame = cable.receive([](const auto& f) { return f.type == kWakeEtherType; });
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->to, netboot::test::kEveryone);
  EXPECT_EQ(frame->from, cable.host_mac());
  EXPECT_TRUE(holds_pattern(frame->payload));

  ASSERT_TRUE(driver->on(duck()));
  const auto datagram = cable.receive_udp(kWakeUdpPort);
  ASSERT_TRUE(datagram);
  EXPECT_EQ(inventory::to_string(datagram->ends.to), "10.21.1.255");
  EXPECT_EQ(datagram->frame.to, netboot::test::kEveryone);
  EXPECT_TRUE(holds_pattern(datagram->payload));
  EXPECT_EQ(driver->state(duck()).power, Power::Unknown); // that it was sent says nothing
}

TEST_F(OnTheWire, APortThatIsDownIsAFaultAndNotASilence) {
  const netboot::test::Cable cable("wol1", 0x0a150101);
  const int any = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  port().interface.copy(request.ifr_name, IFNAMSIZ - 1);
  ASSERT_EQ(::ioctl(any, SIOCSIFFLAGS, &request), 0); // no flags: down
  ::close(any);
  const auto sent = make_wake_on_lan_driver({port()})->on(duck());
  ASSERT_FALSE(sent);
  EXPECT_THAT(sent.error().message, HasSubstr("'wol1' is down"));
  EXPECT_EQ(sent.error().next, "ip link set wol1 up");
}

TEST_F(OnTheWire, AnInterfaceThatIsNotThereIsNamed) {
  const auto sent = make_wake_on_lan_driver({port()})->check(duck());
  ASSERT_FALSE(sent);
  EXPECT_THAT(sent.error().message, HasSubstr("no network interface 'wol1'"));
}

TEST_F(OnTheWire, SwitchingOffIsNotPretended) {
  const auto off = make_wake_on_lan_driver({port()})->off(duck());
  ASSERT_FALSE(off);
  EXPECT_THAT(off.error().next, HasSubstr("ductl down"));
}

} // namespace
} // namespace ductl::power
