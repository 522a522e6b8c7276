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
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <optional>
#include <sched.h>
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

constexpr netboot::Mac kMac{0x52, 0x54, 0, 0x21, 1, 1};

// One cable: `host` here, the other end "duck0" with kMac in the network of another thread.
bool make_cable(const std::string& host, pid_t duck_thread) {
  alignas(nlmsghdr) char bytes[512]{};
  auto* head = reinterpret_cast<nlmsghdr*>(bytes);
  head->nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
  head->nlmsg_type = RTM_NEWLINK;
  head->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  const auto add = [&](int type, const void* data, std::size_t size) {
    auto* attribute = reinterpret_cast<rtattr*>(bytes + NLMSG_ALIGN(head->nlmsg_len));
    attribute->rta_type = static_cast<std::uint16_t>(type);
    attribute->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
    if (size != 0) std::memcpy(RTA_DATA(attribute), data, size);
    head->nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(head->nlmsg_len) + RTA_ALIGN(attribute->rta_len));
    return attribute;
  };
  const auto close_nest = [&](rtattr* nest) { // all of them end where the message ends
    nest->rta_len = static_cast<std::uint16_t>(bytes + head->nlmsg_len - reinterpret_cast<char*>(nest));
  };
  add(IFLA_IFNAME, host.c_str(), host.size() + 1);
  rtattr* info = add(IFLA_LINKINFO, nullptr, 0);
  add(IFLA_INFO_KIND, "veth", 4);
  rtattr* data = add(IFLA_INFO_DATA, nullptr, 0);
  const ifinfomsg peer_head{};
  rtattr* peer = add(VETH_INFO_PEER, &peer_head, sizeof peer_head);
  add(IFLA_IFNAME, "duck0", 6);
  add(IFLA_ADDRESS, kMac.data(), kMac.size());
  add(IFLA_NET_NS_PID, &duck_thread, sizeof duck_thread);
  close_nest(peer);
  close_nest(data);
  close_nest(info);
  const netboot::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (::send(socket.get(), bytes, head->nlmsg_len, 0) < 0) return false;
  alignas(nlmsghdr) char answer[1024];
  if (::recv(socket.get(), answer, sizeof answer, 0) <= 0) return false;
  return reinterpret_cast<const nlmsgerr*>(answer + NLMSG_HDRLEN)->error == 0;
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

// A thread in a network of its own, which does what a duck does once it is told what that is.
class DuckThread {
public:
  DuckThread() : thread_([this] { live(); }) { number_ = born_.get_future().get(); }
  ~DuckThread() {
    if (thread_.joinable()) run([] {});
  }
  DuckThread(const DuckThread&) = delete;
  DuckThread& operator=(const DuckThread&) = delete;
  [[nodiscard]] pid_t number() const { return number_; }
  void run(std::function<void()> body) { // to its end
    body_.set_value(std::move(body));
    thread_.join();
  }

private:
  void live() {
    born_.set_value(::unshare(CLONE_NEWNET) == 0 ? ::gettid() : 0);
    body_.get_future().get()();
  }
  std::promise<pid_t> born_;
  std::promise<std::function<void()>> body_;
  pid_t number_ = 0;
  std::thread thread_;
};

class AddressKeeperTest : public testing::Test {
protected:
  void SetUp() override {
    static const bool entered = test::enter_own_network();
    if (!entered) GTEST_SKIP() << "this user may not make a network namespace";
    static int cables = 0; // an old one goes with its duck, but not at once
    host_ = "host" + std::to_string(++cables);
    duck_.emplace();
    ASSERT_NE(duck_->number(), 0);
    ASSERT_TRUE(make_cable(host_, duck_->number()));
    ASSERT_TRUE(raise_link(host_));
    ASSERT_TRUE(set_address(host_, kHost, 0xffffff00));
  }

  // The real server, with this duck in its plan.
  std::unique_ptr<netboot::BootServer> server(std::chrono::seconds lease) {
    netboot::BootPlan plan;
    plan.ports = {{"port1", host_, kHost, 24, netboot::DhcpMode::Full}};
    plan.ducks = {{"duck1", kMac, 0, kDuck}};
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
  std::string host_;
  std::optional<DuckThread> duck_;
};

TEST_F(AddressKeeperTest, GetsAnAddressFromTheBootServerAndRenewsIt) {
  const auto boot = server(10s); // the shortest that a plan may have
  std::thread serving([&] { (void)boot->run(); });
  duck_->run([] {
    ASSERT_TRUE(raise_link("duck0"));
    const auto keeper = AddressKeeper::open("duck0", kMac, 0);
    ASSERT_TRUE(keeper) << keeper.error().text();
    ASSERT_TRUE((*keeper)->serve(10s));
    ASSERT_TRUE((*keeper)->lease());
    EXPECT_EQ((*keeper)->lease()->address, kDuck);
    EXPECT_EQ((*keeper)->lease()->server, kHost);
    EXPECT_THAT(addresses_of("duck0"), testing::ElementsAre(kDuck));
    const Instant leased = Clock::now();
    ASSERT_TRUE((*keeper)->serve(7s)); // past T1 = 5 s, before T2 = 8.75 s: renewed by unicast
    EXPECT_GT((*keeper)->silent_since(), leased + 4s);
  });
  boot->stop();
  serving.join();
  EXPECT_GE(boot->counts().dhcp_sent, 3u); // OFFER, ACK, ACK
}

TEST_F(AddressKeeperTest, SpeaksWithoutAnAddress) {
  const netboot::Descriptor listener(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(kAnnouncementPort);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  Announcement trouble;
  trouble.kind = AnnouncementKind::Failure;
  trouble.mac = kMac;
  trouble.text = "no DHCP server answered for two minutes";
  duck_->run([&] {
    ASSERT_TRUE(raise_link("duck0"));
    const auto keeper = AddressKeeper::open("duck0", kMac, 0);
    ASSERT_TRUE(keeper);
    (*keeper)->announce(trouble, kHost);
  });
  pollfd readable{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 5000), 1);
  char bytes[2048];
  const ssize_t got = ::recv(listener.get(), bytes, sizeof bytes, 0);
  const auto heard = parse_announcement({bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
  ASSERT_TRUE(heard) << heard.error().text();
  EXPECT_EQ(*heard, trouble);
}

TEST_F(AddressKeeperTest, InterfacesThatAreNotThereAreErrors) {
  EXPECT_FALSE(AddressKeeper::open("none0", {}, 0));
  EXPECT_THAT(raise_link("none0").error().message, HasSubstr("cannot be switched on"));
  EXPECT_FALSE(set_address("none0", kDuck, 0xffffff00));
}

} // namespace
} // namespace ductl::agent::init
