// The duck's DHCP client against messages of its server, without sockets and without waiting.
#include "agent/init/dhcp_client.hpp"

#include "netboot/dhcp/responder.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::init {
namespace {

using namespace netboot::dhcp;
using namespace std::chrono_literals;
using netboot::Bytes;
using netboot::Ipv4;
using netboot::Mac;
using testing::ElementsAre;

constexpr Mac kMac{0x52, 0x54, 0, 0x21, 1, 1};
constexpr Ipv4 kHost = 0x0a150101, kDuck = 0x0a150165, kOther = 0x0a1501c8, kStranger = 0x0a1501fe;

class DhcpClientTest : public testing::Test {
protected:
  // What is sent at the next deadline, parsed.
  Packet next() {
    now = std::max(now, client.deadline());
    const auto sent = client.poll(now);
    if (sent.size() != 1) throw std::runtime_error("not one message");
    last = sent[0];
    return parse(last.bytes).value();
  }
  void answer(MessageType type, const Packet& to, Ipv4 address, Ipv4 server = kHost, std::uint32_t seconds = 1000) {
    Packet packet;
    packet.op = Op::Reply;
    packet.xid = to.xid;
    packet.mac = to.mac;
    packet.yiaddr = address;
    packet.options[option::kMessageType] = option_u8(static_cast<std::uint32_t>(type));
    packet.options[option::kServerId] = option_u32(server);
    packet.options[option::kSubnetMask] = option_u32(0xffffff00);
    packet.options[option::kLeaseTime] = option_u32(seconds);
    client.receive(*build(packet, 1472), now);
  }
  void bind(std::uint32_t seconds = 1000) {
    answer(MessageType::Offer, next(), kDuck);
    answer(MessageType::Ack, next(), kDuck, kHost, seconds);
    ASSERT_TRUE(client.bound());
  }

  Instant now{1h};
  DhcpClient client{kMac, 0, 4711, now};
  DhcpClient::Message last;
};

TEST_F(DhcpClientTest, AsksAsADuckAndTakesWhatItIsGiven) {
  const Packet discover = next();
  EXPECT_EQ(discover.type(), MessageType::Discover);
  EXPECT_EQ(*discover.find(option::kVendorClass), "DuckAgent");
  EXPECT_TRUE(discover.wants_broadcast());
  EXPECT_EQ(last.to, 0xffffffffu);
  answer(MessageType::Offer, discover, kDuck);
  const Packet request = next();
  EXPECT_EQ(request.type(), MessageType::Request);
  EXPECT_EQ(request.address(option::kRequestedAddress), kDuck);
  EXPECT_EQ(request.address(option::kServerId), kHost);
  answer(MessageType::Ack, request, kDuck);
  EXPECT_EQ(client.lease(), (Lease{kDuck, 0xffffff00, kHost, 1000s}));
  EXPECT_TRUE(client.bound());
}

TEST_F(DhcpClientTest, AsksEveryFourSecondsInTheEndAndNeverStops) {
  std::vector<std::int64_t> at_ms;
  const Instant start = now;
  for (int i = 0; i < 8; ++i) {
    (void)next();
    at_ms.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(now - start).count());
  }
  EXPECT_THAT(at_ms, ElementsAre(0, 250, 750, 1750, 3750, 7750, 11750, 15750));
  while (now < start + 130s) EXPECT_EQ(next().type(), MessageType::Discover);
  EXPECT_EQ(client.silent_since(), start);
  bind();
}

TEST_F(DhcpClientTest, NothingIsSentBeforeItsTime) {
  (void)next();
  EXPECT_TRUE(client.poll(now + 249ms).empty());
  EXPECT_EQ(client.poll(now + 250ms).size(), 1u);
}

TEST_F(DhcpClientTest, StrangersAndOldAnswersAreNotBelieved) {
  Packet discover = next();
  Packet other = discover;
  other.xid ^= 1;
  answer(MessageType::Offer, other, kDuck);
  other = discover;
  other.mac[5] = 9;
  answer(MessageType::Offer, other, kDuck);
  answer(MessageType::Offer, discover, 0);   // a proxy's: no address
  answer(MessageType::Ack, discover, kDuck); // nobody has asked yet
  client.receive(Bytes(20), now);
  EXPECT_EQ(next().type(), MessageType::Discover);
  answer(MessageType::Offer, discover, kDuck);
  const Packet request = next();
  answer(MessageType::Ack, request, kOther);           // not what was asked for
  answer(MessageType::Ack, request, kDuck, kStranger); // nor of whom
  EXPECT_FALSE(client.lease());
  answer(MessageType::Ack, request, kDuck);
  EXPECT_TRUE(client.lease());
}

TEST_F(DhcpClientTest, AnotherAddressThanTheLoadersIsTakenOnlyWhenThatOneIsNotOffered) {
  client = DhcpClient(kMac, kDuck, 1, now);
  Packet discover = next();
  EXPECT_EQ(discover.address(option::kRequestedAddress), kDuck);
  answer(MessageType::Offer, discover, kOther, kStranger); // somebody else's server is quicker
  answer(MessageType::Offer, discover, kDuck);
  EXPECT_EQ(next().address(option::kServerId), kHost);

  client = DhcpClient(kMac, kDuck, 1, now);
  discover = next();
  answer(MessageType::Offer, discover, kOther, kStranger);
  EXPECT_EQ(next().type(), MessageType::Discover); // one more chance
  const Packet request = next();
  EXPECT_EQ(request.type(), MessageType::Request);
  EXPECT_EQ(request.address(option::kRequestedAddress), kOther);
}

TEST_F(DhcpClientTest, AnOfferThatIsNotConfirmedIsForgotten) {
  answer(MessageType::Offer, next(), kDuck);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(next().type(), MessageType::Request);
  EXPECT_EQ(next().type(), MessageType::Discover);
}

TEST_F(DhcpClientTest, RenewsAtHalfItsLeaseWithTheServerItself) {
  bind(1000);
  const Instant bound_at = now;
  EXPECT_TRUE(client.poll(now + 499s).empty());
  const Packet renewal = next();
  EXPECT_EQ(now - bound_at, 500s);
  EXPECT_EQ(last.to, kHost);
  EXPECT_EQ(last.from, kDuck);
  EXPECT_EQ(renewal.ciaddr, kDuck);
  EXPECT_FALSE(renewal.find(option::kServerId));
  EXPECT_FALSE(renewal.wants_broadcast());
  answer(MessageType::Ack, renewal, kDuck);
  EXPECT_TRUE(client.bound());
  EXPECT_EQ(client.deadline(), now + 500s);
}

TEST_F(DhcpClientTest, AsksEverybodyFromSevenEighthsAndKeepsItsAddressBeyondTheEnd) {
  bind(1000);
  const Instant bound_at = now;
  Packet packet = next();
  while (now < bound_at + 875s) packet = next();
  EXPECT_EQ(last.to, 0xffffffffu);
  EXPECT_EQ(packet.ciaddr, kDuck);
  while (now < bound_at + 1000s) packet = next();
  EXPECT_EQ(packet.type(), MessageType::Discover); // the host is away: the same question as at the start
  EXPECT_EQ(packet.address(option::kRequestedAddress), kDuck);
  ASSERT_TRUE(client.lease());
  EXPECT_EQ(client.lease()->address, kDuck);
  bind();
  EXPECT_EQ(client.lease()->address, kDuck);
}

TEST_F(DhcpClientTest, ARefusalStartsAnew) {
  bind(1000);
  const Packet renewal = next();
  answer(MessageType::Nak, renewal, 0);
  const Packet discover = next();
  EXPECT_EQ(discover.type(), MessageType::Discover);
  EXPECT_FALSE(discover.find(option::kRequestedAddress));
}

TEST_F(DhcpClientTest, NonsenseInALeaseIsPutRight) {
  answer(MessageType::Offer, next(), kDuck);
  Packet ack;
  const Packet request = next();
  ack.op = Op::Reply;
  ack.xid = request.xid;
  ack.mac = kMac;
  ack.yiaddr = kDuck;
  ack.options[option::kMessageType] = option_u8(5);
  ack.options[option::kServerId] = option_u32(kHost);
  ack.options[option::kSubnetMask] = option_u32(0xff00ff00);
  ack.options[option::kLeaseTime] = option_u32(0);
  ack.options[option::kRenewalTime] = option_u32(500); // behind the lease's end
  client.receive(*build(ack, 1472), now);
  ASSERT_TRUE(client.lease());
  EXPECT_EQ(client.lease()->netmask, 0xffffff00u);
  EXPECT_EQ(client.lease()->lifetime, 4s);
  EXPECT_EQ(client.deadline(), now + 2s);
}

// The real server's deciding part: nothing of either side is made up.
TEST_F(DhcpClientTest, IsUnderstoodByTheBootServer) {
  netboot::BootPlan plan;
  plan.ports = {{"port1", "br1", kHost, 24, netboot::DhcpMode::Full}};
  plan.ducks = {{"duck1", kMac, 0, kDuck}};
  plan.lease = 20s;
  std::vector<netboot::BootEvent> events;
  netboot::BootWatch watch(plan, events);
  Responder responder(plan, watch, events);
  const auto exchange = [&] {
    const Bytes sent = client.poll(now = std::max(now, client.deadline())).at(0).bytes;
    for (const Outgoing& out : responder.receive({sent, 0}, now)) client.receive(out.bytes, now);
  };
  exchange();
  exchange();
  ASSERT_TRUE(client.bound());
  EXPECT_EQ(client.lease(), (Lease{kDuck, 0xffffff00, kHost, 20s}));
  const Instant bound_at = now;
  exchange(); // renewal
  EXPECT_TRUE(client.bound());
  EXPECT_EQ(now - bound_at, 10s);
}

} // namespace
} // namespace ductl::agent::init
