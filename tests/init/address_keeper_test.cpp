// A duck's network against the real boot server, over a virtual cable in a network of the test's own.
#include "agent/init/address_keeper.hpp"
#include "agent/init/route_netlink.hpp"

#include "netboot/boot_script.hpp"
#include "netboot/server/boot_server.hpp"
#include "tests/support/own_network.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace ductl::agent::init {
namespace {

using namespace std::chrono_literals;
using netboot::Ipv4;
using testing::HasSubstr;

constexpr Ipv4 kHost = 0x0a150101, kDuck = 0x0a150165;

class Silent final : public netboot::BootEvents {
public:
  void on_event(const netboot::BootEvent&) override {}
};

// One cable: two interfaces that are each other's neighbour.
bool make_cable(const std::string& one, const std::string& other) {
  alignas(nlmsghdr) char bytes[512]{};
  auto* head = reinterpret_cast<nlmsghdr*>(bytes);
  head->nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
  head->nlmsg_type = RTM_NEWLINK;
  head->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  const auto add = [&](std::uint16_t type, const void* data, std::size_t size) {
    auto* attribute = reinterpret_cast<rtattr*>(bytes + NLMSG_ALIGN(head->nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
    if (size != 0) std::memcpy(RTA_DATA(attribute), data, size);
    head->nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(head->nlmsg_len) + RTA_ALIGN(attribute->rta_len));
    return attribute;
  };
  const auto close = [&](rtattr* nest) { // nests end where the message ends
    nest->rta_len = static_cast<std::uint16_t>(bytes + head->nlmsg_len - reinterpret_cast<char*>(nest));
  };
  add(IFLA_IFNAME, one.c_str(), one.size() + 1);
  rtattr* info = add(IFLA_LINKINFO, nullptr, 0);
  add(IFLA_INFO_KIND, "veth", 4);
  rtattr* data = add(IFLA_INFO_DATA, nullptr, 0);
  const ifinfomsg peer_head{};
  rtattr* peer = add(VETH_INFO_PEER, &peer_head, sizeof peer_head);
  add(IFLA_IFNAME, other.c_str(), other.size() + 1);
  close(peer);
  close(data);
  close(info);
  const netboot::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (::send(socket.get(), bytes, head->nlmsg_len, 0) < 0) return false;
  alignas(nlmsghdr) char answer[1024];
  if (::recv(socket.get(), answer, sizeof answer, 0) <= 0) return false;
  return reinterpret_cast<const nlmsgerr*>(answer + NLMSG_HDRLEN)->error == 0;
}

netboot::Mac mac_of(const std::string& interface) {
  const netboot::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  netboot::Mac mac{};
  if (::ioctl(socket.get(), SIOCGIFHWADDR, &request) == 0) std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

std::vector<Ipv4> addresses_of(const std::string& interface) {
  ifaddrs* all = nullptr;
  std::vector<Ipv4> out;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET && interface == entry->ifa_name)
      out.push_back(ntohl(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr));
  ::freeifaddrs(all);
  return out;
}

class AddressKeeperTest : public testing::Test {
protected:
  void SetUp() override {
    static const bool entered = test::enter_own_network();
    if (!entered) GTEST_SKIP() << "this user may not make a network namespace";
    static const bool cable = make_cable("host0", "duck0");
    ASSERT_TRUE(cable);
    ASSERT_TRUE(raise_link("host0"));
    ASSERT_TRUE(raise_link("duck0"));
    ASSERT_TRUE(set_address("host0", kHost, 0xffffff00));
  }

  // The real server, with this duck in its plan.
  std::unique_ptr<netboot::BootServer> server(Ipv4 address, std::chrono::seconds lease) {
    netboot::BootPlan plan;
    plan.ports = {{"port1", "host0", kHost, 24, netboot::DhcpMode::Full}};
    plan.ducks = {{"duck1", mac_of("duck0"), 0, address}};
    plan.lease = lease;
    plan.http_port = 8069;
    netboot::BootFiles files;
    for (const std::string name : {"vmlinuz", "initrd.zst", "duck.efi", "ipxe.efi", "undionly.kpxe"})
      files.add(name, *netboot::BootFile::from_bytes(netboot::bytes_of("x")));
    (void)netboot::add_scripts(plan, files);
    auto opened = netboot::BootServer::open(plan, files, events_);
    if (!opened) throw std::runtime_error(opened.error().text());
    return std::move(*opened);
  }

  Silent events_;
};

TEST_F(AddressKeeperTest, GetsAnAddressFromTheBootServerAndRenewsIt) {
  const auto boot = server(kDuck, 4s);
  std::thread serving([&] { (void)boot->run(); });
  const auto keeper = AddressKeeper::open("duck0", mac_of("duck0"), 0);
  ASSERT_TRUE(keeper) << keeper.error().text();
  ASSERT_TRUE((*keeper)->serve(10s));
  ASSERT_TRUE((*keeper)->lease());
  EXPECT_EQ((*keeper)->lease()->address, kDuck);
  EXPECT_EQ((*keeper)->lease()->server, kHost);
  EXPECT_THAT(addresses_of("duck0"), testing::ElementsAre(kDuck));
  const Instant leased = Clock::now();
  ASSERT_TRUE((*keeper)->serve(3s)); // past T1 = 2 s: renewed by unicast
  EXPECT_GT((*keeper)->silent_since(), leased + 1s);
  EXPECT_GE(boot->counts().dhcp_sent, 0u);
  boot->stop();
  serving.join();
  EXPECT_GE(boot->counts().dhcp_sent, 3u); // OFFER, ACK, ACK
}

TEST_F(AddressKeeperTest, SaysWhatIsWrongWithoutAnAddressAndWithOne) {
  const netboot::Descriptor listener(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(kAnnouncementPort);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  const auto heard = [&]() -> std::string {
    pollfd readable{listener.get(), POLLIN, 0};
    char bytes[2048];
    if (::poll(&readable, 1, 5000) <= 0) return "";
    const ssize_t got = ::recv(listener.get(), bytes, sizeof bytes, 0);
    return std::string(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  };
  const auto keeper = AddressKeeper::open("duck0", mac_of("duck0"), 0);
  ASSERT_TRUE(keeper);
  Announcement trouble;
  trouble.kind = AnnouncementKind::Failure;
  trouble.mac = mac_of("duck0");
  trouble.text = "no DHCP server answered for two minutes";
  (*keeper)->announce(trouble, 0);
  const auto first = parse_announcement(heard());
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(*first, trouble);
}

TEST_F(AddressKeeperTest, InterfacesThatAreNotThereAreErrors) {
  EXPECT_FALSE(AddressKeeper::open("none0", {}, 0));
  EXPECT_THAT(raise_link("none0").error().message, HasSubstr("cannot be switched on"));
  EXPECT_FALSE(set_address("none0", kDuck, 0xffffff00));
}

} // namespace
} // namespace ductl::agent::init
