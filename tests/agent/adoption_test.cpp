// Who may adopt a netbooted duck, and what its control plane says before and after.
#include "agent/control_server.hpp"

#include "agent/client/control_client.hpp"
#include "agent/kernels/select.hpp"
#include "agent/transport/udp_transport.hpp"

#include <gmock/gmock.h>

#include <atomic>

namespace ductl::agent {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr inventory::Ipv4 kLoopback = 0x7f000001, kHost = 0x0a150101, kDuck = 0x0a150165, kNeighbour = 0x0a1501c8,
                          kFar = 0x0a150201;
const std::string kKey(64, 'e');

Adoption adoption(const std::string& name = "duck01") { return {"home", name, kKey, {1u << 30, 0, 0, ""}, 1'796'000'000'000}; }

TEST(Membership, OneAdoptionABootAndOnlyOfTheBootHost) {
  Membership duck(AdoptionRule{kHost, kDuck, 0xffffff00});
  EXPECT_FALSE(duck.adopted());
  EXPECT_FALSE(duck.is_key(""));
  EXPECT_THAT(duck.adopt(adoption(), kNeighbour).error().message, HasSubstr("only its boot host 10.21.1.1 may"));
  EXPECT_FALSE(duck.adopt(adoption(), 0));
  EXPECT_FALSE(duck.adopted());
  EXPECT_TRUE(duck.adopt(adoption(), kHost));
  EXPECT_TRUE(duck.is_key(kKey));
  EXPECT_EQ(duck.member().name, "duck01");
  EXPECT_THAT(duck.adopt(adoption("duck02"), kHost).error().message, HasSubstr("is duck01 of flock home already"));
  EXPECT_EQ(duck.member().name, "duck01");
}

TEST(Membership, WithoutAKnownHostANeighbourMay) {
  Membership duck(AdoptionRule{0, kDuck, 0xffffff00});
  EXPECT_FALSE(duck.adopt(adoption(), kFar));
  EXPECT_TRUE(duck.adopt(adoption(), kNeighbour));
  Membership nowhere(AdoptionRule{});
  EXPECT_FALSE(nowhere.adopt(adoption(), kHost));
}

TEST(Membership, AnAgentThatWasToldAtItsStartStaysSo) {
  Membership duck(Member{"duck1", "local", kKey});
  EXPECT_TRUE(duck.adopted());
  EXPECT_FALSE(duck.adopt(adoption(), kHost));
}

// The control plane of a netbooted duck, in this process.
class NetbootedDuck : public testing::Test {
protected:
  explicit NetbootedDuck(inventory::Ipv4 host = kLoopback) : membership(AdoptionRule{host, kLoopback, 0xff000000}) {
    UdpOptions udp;
    udp.bind = {kLoopback, 0};
    transport = std::move(*open_udp_transport(udp));
    expert_server = std::make_unique<ExpertServer>(*transport, *store, **select_kernels());
    ControlServerOptions options;
    options.address = kLoopback;
    options.boot_id = "c0ffee0123456789";
    options.own.emplace();
    options.own->mac = "52:54:00:21:01:01";
    options.own->image = std::string(64, 'a');
    options.own->log = [](std::size_t bytes) -> Expected<std::string> { return std::string("kernel line\n").substr(0, bytes); };
    options.own->set_clock = [this](std::int64_t ms) { clock_ms = ms; };
    options.own->reboot = [this] { ++reboots; };
    server = std::move(*ControlServer::start(options, membership, health, *store, *expert_server, [this] { ++power_offs; }));
    (void)health.look(Clock::now());
  }
  [[nodiscard]] ControlClient client(const std::string& key) const { return {"duck01", {kLoopback, server->port()}, key, 5s}; }

  Membership membership;
  health::HealthWatch health{[] { return health::read_machine(MachineFiles(), ""); }, true, std::string(64, 'a'), "0.1.0",
                             Clock::now()};
  std::unique_ptr<Transport> transport;
  std::unique_ptr<SliceStore> store = make_slice_store();
  std::unique_ptr<ExpertServer> expert_server;
  std::atomic<std::int64_t> clock_ms{0};
  std::atomic<int> reboots{0}, power_offs{0};
  std::unique_ptr<ControlServer> server;
};

TEST_F(NetbootedDuck, SaysThatNobodyHasItAndTakesNothingElse) {
  const auto hello = client("").hello();
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_FALSE(hello->adopted);
  EXPECT_EQ(hello->name, "");
  EXPECT_EQ(hello->mac, "52:54:00:21:01:01");
  EXPECT_EQ(hello->image, std::string(64, 'a'));
  EXPECT_THAT(client(kKey).stats().error().message, HasSubstr("belongs to no flock yet"));
  EXPECT_FALSE(client("").power_off());
  EXPECT_FALSE(client("").reboot());
  EXPECT_FALSE(client("").log_tail());
  EXPECT_EQ(power_offs + reboots, 0);
}

TEST_F(NetbootedDuck, IsOneOfTheFlockOnceItIsAdopted) {
  ASSERT_TRUE(client("").adopt(adoption()));
  EXPECT_EQ(clock_ms, 1'796'000'000'000);
  const auto hello = client(kKey).hello();
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_TRUE(hello->adopted);
  EXPECT_EQ(hello->name, "duck01");
  EXPECT_EQ(hello->flock, "home");
  EXPECT_TRUE(client(kKey).stats());
  EXPECT_FALSE(client(std::string(64, 'f')).stats());
  EXPECT_FALSE(client("").adopt(adoption("duck02")));
  EXPECT_EQ(*client(kKey).log_tail(), "kernel line\n");
  EXPECT_TRUE(client(kKey).reboot());
  EXPECT_EQ(reboots, 1);
  EXPECT_TRUE(client(kKey).power_off());
  EXPECT_EQ(power_offs, 1);
}

TEST_F(NetbootedDuck, TellsItsHealthToAnybody) {
  const auto before = client("").health(0);
  ASSERT_TRUE(before) << before.error().text();
  EXPECT_EQ(before->image, std::string(64, 'a'));
  EXPECT_EQ(find(*before, check::kMemory)->state, HealthState::Unknown); // nobody said how much it should have
  EXPECT_EQ(find(*before, check::kClock)->state, HealthState::Warn);     // 1970
  ASSERT_TRUE(client("").adopt(adoption()));
  EXPECT_EQ(find(*client("").health(0), check::kMemory)->expected, "1.0 GiB");
}

class DuckOfAnotherHost : public NetbootedDuck {
protected:
  DuckOfAnotherHost() : NetbootedDuck(kHost) {}
};

TEST_F(DuckOfAnotherHost, RefusesStrangers) {
  const auto refused = client("").adopt(adoption());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("127.0.0.1 may not adopt this duck"));
  EXPECT_FALSE(client("").hello()->adopted);
}

} // namespace
} // namespace ductl::agent
