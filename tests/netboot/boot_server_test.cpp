// The whole server on a network of its own: raw frames of crafted firmware on one side, and real clients (libcurl's HTTP and
// TFTP) on the other.
#include "netboot/boot_script.hpp"
#include "netboot/router/advertisement.hpp"
#include "netboot/server/boot_server.hpp"

#include "firmware.hpp"
#include "own_network.hpp"
#include "sample_plan.hpp"
#include "tftp_client.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <condition_variable>
#include <curl/curl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <mutex>
#include <random>
#include <sys/socket.h>
#include <thread>

namespace ductl::netboot {
namespace {

using namespace test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::HasSubstr;

constexpr Ipv4 kLoopback = 0x7f000001;

Bytes noise(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// What the server tells, for another thread.
class Heard final : public BootEvents {
public:
  void on_event(const BootEvent& event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  // The first event of this kind (and with this in its text), waited for; nothing after five seconds.
  std::optional<BootEvent> wait(BootEventKind kind, const std::string& text = {}, std::chrono::milliseconds timeout = 5s) {
    std::unique_lock lock(mutex_);
    std::optional<BootEvent> found;
    changed_.wait_for(lock, timeout, [&] {
      for (const BootEvent& event : events_)
        if (event.kind == kind && event.text.find(text) != std::string::npos) found = event;
      return found.has_value();
    });
    return found;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<BootEvent> events_;
};

// A server on its thread.
class Running {
public:
  Running(const BootPlan& plan, const BootFiles& files) {
    auto opened = BootServer::open(plan, files, heard);
    if (!opened) throw std::runtime_error(opened.error().text());
    server = std::move(*opened);
    thread_ = std::thread([this] {
      thread_id = ::gettid();
      result = server->run();
    });
    while (thread_id == 0) std::this_thread::yield();
  }
  ~Running() { stop(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  void stop() {
    if (!thread_.joinable()) return;
    server->stop();
    thread_.join();
  }

  Heard heard;
  std::unique_ptr<BootServer> server;
  std::atomic<int> thread_id = 0;
  Expected<void> result;

private:
  std::thread thread_;
};

class BootServerTest : public ::testing::Test {
protected:
  void SetUp() override {
    const std::string trouble = enter_own_network();
    if (!trouble.empty()) GTEST_SKIP() << trouble;
  }
  static BootFiles files(std::size_t kernel_bytes = 1'000'000) {
    BootFiles all;
    for (const auto& [name, size] : {std::pair{"vmlinuz"s, kernel_bytes},
                                     {"initrd.zst"s, 70'001},
                                     {"ipxe.efi"s, 850'000},
                                     {"duck.efi"s, 300'000},
                                     {"undionly.kpxe"s, 74'000}})
      all.add(name, BootFile::from_bytes(noise(size)).value());
    return all;
  }
};

// On cables.

class OnCables : public BootServerTest {
protected:
  void SetUp() override {
    BootServerTest::SetUp();
    if (IsSkipped()) return;
    cable1.emplace("br1", kHost1);
    cable2.emplace("br2", kHost2);
    running.emplace(plan, files());
  }
  void discover(Cable& cable, const RawMessage& message) {
    cable.send_udp(message.mac, {0, 0xffffffff, 68, 67}, message.bytes());
  }

  BootPlan plan = sample_plan();
  std::optional<Cable> cable1, cable2;
  std::optional<Running> running;
};

TEST_F(OnCables, AnOfferGoesToTheMacOfAClientThatHasNoAddressYet) {
  discover(*cable1, bios_ipxe(kMac1));
  const auto offer = cable1->receive_udp(68);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->frame.to, kMac1);
  EXPECT_EQ(offer->frame.from, cable1->host_mac());
  EXPECT_EQ(offer->ends, (UdpEnds{kHost1, kDuck1, 67, 68}));
  const auto packet = dhcp::parse(offer->payload);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->yiaddr, kDuck1);
  EXPECT_TRUE(running->heard.wait(BootEventKind::Asked, "duck1 starts to boot on port1 (iPXE)"));
}

TEST_F(OnCables, AnOfferIsBroadcastWhereTheClientAsksForIt) {
  discover(*cable1, uefi_pxe(kMac1));
  const auto offer = cable1->receive_udp(68);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->frame.to, kEveryone);
  EXPECT_EQ(offer->ends, (UdpEnds{kHost1, 0xffffffff, 67, 68}));
}

TEST_F(OnCables, PortsAreKeptApart) {
  discover(*cable2, uefi_pxe(kMac1)); // duck1 plugged into port2
  const auto told = running->heard.wait(BootEventKind::WrongPort);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->port_index, 1);
  EXPECT_FALSE(cable1->receive_udp(68, 200ms));
  EXPECT_FALSE(cable2->receive_udp(68, 10ms));
}

TEST_F(OnCables, ProxyAnswersFromPort4011AndItsOwnAddress) {
  discover(*cable2, uefi_pxe(kMac3));
  const auto offer = cable2->receive_udp(68);
  ASSERT_TRUE(offer);
  EXPECT_EQ(dhcp::parse(offer->payload)->yiaddr, 0u);
  cable2->answer_arp(kDuck3, kMac3);
  cable2->send_udp(kMac3, {kDuck3, kHost2, 4011, 4011}, proxy_request_of(uefi_pxe(kMac3), kDuck3).bytes());
  const auto ack = cable2->receive_udp(4011);
  ASSERT_TRUE(ack);
  EXPECT_EQ(ack->ends, (UdpEnds{kHost2, kDuck3, 4011, 4011}));
  EXPECT_EQ(dhcp::parse(ack->payload)->file, "ipxe.efi");
}

TEST_F(OnCables, StrangersGetNothing) {
  discover(*cable1, uefi_pxe(kStranger));
  EXPECT_TRUE(running->heard.wait(BootEventKind::UnknownMac, "52:54:00:21:09:09"));
  EXPECT_FALSE(cable1->receive_udp(68, 200ms));
}

TEST_F(OnCables, OtherServersAreOverheard) {
  RawMessage offer;
  offer.op = 2;
  offer.mac = kMac1;
  offer.with(53, u8(2)).with(54, u32(0x0a1501fd));
  cable1->send({kEveryone, {2, 0, 0, 0, 0, 9}, 0x0800, ipv4_udp_packet({0x0a1501fd, 0xffffffff, 67, 68}, offer.bytes())});
  EXPECT_TRUE(running->heard.wait(BootEventKind::ForeignServer, "10.21.1.253 answers on br1"));
}

EthernetFrame solicitation_of(const Mac& mac) {
  const Ipv6 source = link_local(mac);
  Writer message;
  message.u8(133).u8(0).u16(0).u32(0);
  const Bytes head = Writer().u32(6u << 28).u16(8).u8(58).u8(255).raw(source).u32(0xff020000).zeros(11).u8(2).take();
  const Bytes lengths = Writer().u32(8).u32(58).take();
  message.patch_u16(2, internet_checksum({ByteView(head).subspan(8), lengths, message.bytes()}));
  return {{0x33, 0x33, 0, 0, 0, 2}, mac, 0x86dd, Writer().raw(ByteView(head)).raw(ByteView(message.bytes())).take()};
}

TEST_F(OnCables, ADucksRouterSolicitationIsAnsweredAndNobodyElses) {
  const auto advertisement = [&](const EthernetFrame& f) {
    return f.type == 0x86dd && f.payload.size() > 40 && f.payload[40] == std::byte{134};
  };
  cable1->send(solicitation_of(kStranger));
  EXPECT_FALSE(cable1->receive(advertisement, 200ms));
  cable1->send(solicitation_of(kMac1));
  const auto heard = cable1->receive(advertisement);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->to, (Mac{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_EQ(heard->payload, router_advertisement(cable1->host_mac()));
}

// KnownBug08, edk2#7264: over the kernel's own UDP, with one packet in fifty lost in either direction.
TEST_F(OnCables, TftpAtTwoPercentLossThroughTheWholeServer) {
  cable1->answer_arp(kDuck1, kMac1);
  std::mt19937 random(1);
  const auto lost = [&] { return random() % 50 == 0; };
  TftpClient client({1468, 4, true});
  cable1->send_udp(kMac1, {kDuck1, kHost1, 2070, 69}, client.request("ipxe.efi"));
  std::uint16_t server_port = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (!client.done() && std::chrono::steady_clock::now() - begin < 30s) {
    const auto heard = cable1->receive_udp(2070, 300ms);
    if (heard) server_port = heard->ends.from_port;
    if (heard && lost()) continue;
    for (const Bytes& answer : heard ? client.feed(heard->payload) : client.timed_out())
      if (!lost()) cable1->send_udp(kMac1, {kDuck1, kHost1, 2070, server_port}, answer);
  }
  EXPECT_TRUE(client.done());
  EXPECT_EQ(client.window_blocks(), 4u);
  EXPECT_EQ(client.file(), noise(850'000));
  const auto sent = running->heard.wait(BootEventKind::FileSent, "duck1 has ipxe.efi");
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->duck_index, 0);
  EXPECT_EQ(sent->mac, kMac1);
}

TEST_F(OnCables, AWholeBootInOrder) {
  discover(*cable1, bios_ipxe(kMac1));
  ASSERT_TRUE(cable1->receive_udp(68));
  discover(*cable1, request_of(bios_ipxe(kMac1), kDuck1, kHost1));
  const auto ack = cable1->receive_udp(68);
  ASSERT_TRUE(ack);
  EXPECT_EQ(dhcp::parse(ack->payload)->type(), dhcp::MessageType::Ack);
  discover(*cable1, request_of(duck_agent(kMac1), kDuck1, kHost1));
  ASSERT_TRUE(running->heard.wait(BootEventKind::AgentAsked, "duck1"));
  running->stop();
  EXPECT_TRUE(running->result);
  EXPECT_EQ(running->server->counts().dhcp_received, 3u);
  EXPECT_EQ(running->server->counts().dhcp_sent, 3u);
}

// On loopback, with libcurl.

struct Fetched {
  CURLcode code = CURLE_OK;
  long status = 0;
  std::string body, head;
};

class Curl {
public:
  Curl() : handle_(curl_easy_init()) {}
  ~Curl() { curl_easy_cleanup(handle_); }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;
  template <class T> Curl& set(CURLoption option, T value) {
    curl_easy_setopt(handle_, option, value);
    return *this;
  }
  Fetched get(const std::string& url) {
    Fetched out;
    set(CURLOPT_URL, url.c_str()).set(CURLOPT_WRITEFUNCTION, &append).set(CURLOPT_WRITEDATA, &out.body);
    set(CURLOPT_HEADERFUNCTION, &append).set(CURLOPT_HEADERDATA, &out.head).set(CURLOPT_TIMEOUT, 30L).set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NOPROXY, "*");
    out.code = curl_easy_perform(handle_);
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &out.status);
    return out;
  }
  [[nodiscard]] long new_connections() const {
    long count = 0;
    curl_easy_getinfo(handle_, CURLINFO_NUM_CONNECTS, &count);
    return count;
  }

private:
  static std::size_t append(char* data, std::size_t one, std::size_t count, void* into) {
    static_cast<std::string*>(into)->append(data, one * count);
    return one * count;
  }
  CURL* handle_;
};

class OnLoopback : public BootServerTest {
protected:
  static constexpr std::size_t kKernelBytes = 12'000'003;
  void SetUp() override {
    BootServerTest::SetUp();
    if (IsSkipped()) return;
    plan.ports = {{"local", "lo", kLoopback, 8, DhcpMode::Full}};
    plan.ducks = {{"duck1", kMac1, 0, 0x7f000002}};
    all = files(kKernelBytes);
    ASSERT_TRUE(add_scripts(plan, all));
    running.emplace(plan, all);
  }
  static std::string text(std::size_t size) { return std::string(text_of(noise(size))); }

  BootPlan plan = sample_plan();
  BootFiles all;
  std::optional<Running> running;
};

TEST_F(OnLoopback, CurlFetchesAWholeBootOverOneConnection) {
  Curl curl;
  curl.set(CURLOPT_INTERFACE, "127.0.0.2");
  const Fetched script = curl.get("http://127.0.0.1/" + script_name(kMac1));
  EXPECT_EQ(script.status, 200);
  EXPECT_TRUE(script.body.starts_with("#!ipxe\n"));
  const Fetched kernel = curl.get("http://127.0.0.1/" + all.hashed_name("vmlinuz"));
  EXPECT_EQ(kernel.body == text(kKernelBytes), true);
  EXPECT_EQ(curl.new_connections(), 0);
  const Fetched initrd = curl.get("http://127.0.0.1/initrd.zst");
  EXPECT_EQ(initrd.body == text(70'001), true);
  EXPECT_EQ(curl.new_connections(), 0);
  const auto sent = running->heard.wait(BootEventKind::FileSent, "duck1 has vmlinuz (12000003 bytes by HTTP");
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->duck_index, 0);
}

TEST_F(OnLoopback, CurlHeadRangeAndRefusals) {
  Curl head;
  head.set(CURLOPT_NOBODY, 1L);
  const Fetched about = head.get("http://127.0.0.1/duck.efi");
  EXPECT_EQ(about.status, 200);
  EXPECT_EQ(about.body, "");
  EXPECT_THAT(about.head, HasSubstr("Content-Length: 300000\r\n"));
  EXPECT_THAT(about.head, HasSubstr("Content-Type: application/efi\r\n"));
  Curl curl;
  curl.set(CURLOPT_RANGE, "299990-");
  const Fetched part = curl.get("http://127.0.0.1/duck.efi");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, text(300'000).substr(299'990));
  curl.set(CURLOPT_RANGE, "300000-");
  EXPECT_EQ(curl.get("http://127.0.0.1/duck.efi").status, 416);
  curl.set(CURLOPT_RANGE, nullptr);
  EXPECT_EQ(curl.get("http://127.0.0.1/etc/passwd").status, 404);
  EXPECT_EQ(curl.new_connections(), 0); // a refusal ends no connection
  EXPECT_TRUE(running->heard.wait(BootEventKind::FileFailed, "/etc/passwd"));
  curl.set(CURLOPT_POSTFIELDS, "x");
  EXPECT_EQ(curl.get("http://127.0.0.1/duck.efi").status, 413);
  curl.set(CURLOPT_HTTPGET, 1L).set(CURLOPT_CUSTOMREQUEST, "DELETE");
  EXPECT_EQ(curl.get("http://127.0.0.1/duck.efi").status, 405);
}

TEST_F(OnLoopback, CurlFetchesByTftpAfterPrivilegesAreGone) {
  for (const long block : {512L, 1468L, 65464L}) {
    Curl curl;
    const Fetched fetched = curl.set(CURLOPT_TFTP_BLKSIZE, block).get("tftp://127.0.0.1/ipxe.efi");
    EXPECT_EQ(fetched.code, CURLE_OK) << block;
    EXPECT_EQ(fetched.body == text(850'000), true) << block;
  }
  Curl old;
  EXPECT_EQ(old.set(CURLOPT_TFTP_NO_OPTIONS, 1L).get("tftp://127.0.0.1/undionly.kpxe").body == text(74'000), true);
  Curl missing;
  EXPECT_EQ(missing.get("tftp://127.0.0.1/nothing").code, CURLE_TFTP_NOTFOUND);
  running->stop();
  EXPECT_EQ(running->server->counts().tftp_sent, 4u);
}

TEST_F(OnLoopback, ManyAtOnce) {
  std::vector<std::thread> ducks;
  std::atomic<int> whole = 0;
  const std::string expected = text(kKernelBytes), small = text(850'000);
  for (int i = 0; i < 16; ++i)
    ducks.emplace_back([&, i] {
      Curl curl;
      curl.set(CURLOPT_INTERFACE, ("127.0.1." + std::to_string(i + 1)).c_str());
      const bool tftp = i % 2 == 1;
      whole += tftp ? curl.get("tftp://127.0.0.1/ipxe.efi").body == small : curl.get("http://127.0.0.1/vmlinuz").body == expected;
    });
  for (std::thread& duck : ducks) duck.join();
  EXPECT_EQ(whole, 16);
}

TEST_F(OnLoopback, AClientThatLeavesInTheMiddleCostsNobodyElseAnything) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int small = 4096;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(80);
  to.sin_addr.s_addr = htonl(kLoopback);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET /vmlinuz HTTP/1.1\r\nHost: a\r\n\r\n";
  ASSERT_EQ(::send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  ASSERT_TRUE(running->heard.wait(BootEventKind::FileBegun, "vmlinuz"));
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd); // RST: the next sendfile is EPIPE, and SIGPIPE where it is not blocked
  EXPECT_TRUE(running->heard.wait(BootEventKind::FileFailed, "vmlinuz"));
  EXPECT_EQ(Curl().get("http://127.0.0.1/duck.efi").status, 200);
}

TEST_F(OnLoopback, TheServersThreadHasNoCapabilities) {
  EXPECT_EQ(Curl().get("http://127.0.0.1/duck.efi").status, 200); // it runs
  std::ifstream status("/proc/self/task/" + std::to_string(running->thread_id) + "/status");
  const std::string all_lines{std::istreambuf_iterator<char>(status), {}};
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    EXPECT_THAT(all_lines, HasSubstr(set + ":\t0000000000000000\n"s));
  EXPECT_THAT(all_lines, HasSubstr("NoNewPrivs:\t1\n"));
}

// What cannot be opened.

class Refused : public BootServerTest {
protected:
  Error error_of(const BootPlan& plan) {
    auto opened = BootServer::open(plan, files(), heard);
    return opened ? Error{} : opened.error();
  }
  static BootPlan plan_on(const std::string& interface, Ipv4 address) {
    BootPlan plan = sample_plan();
    plan.ports = {{"port1", interface, address, 24, DhcpMode::Full}};
    plan.ducks.clear();
    return plan;
  }
  Heard heard;
};

TEST_F(Refused, APlanThatIsWrong) {
  BootPlan plan = sample_plan();
  plan.ducks[1].mac = kMac1;
  EXPECT_EQ(error_of(plan).code, ErrorCode::kInventoryDuplicate);
}

TEST_F(Refused, AnInterfaceThatIsNotThereOrDownOrHasNotTheAddress) {
  EXPECT_THAT(error_of(plan_on("enp9s9", kHost1)).message, HasSubstr("there is no network interface 'enp9s9'"));
  const Cable cable("br1", kHost1);
  const Error error = error_of(plan_on("br1", 0x0a150109));
  EXPECT_EQ(error.code_name(), "D0610");
  EXPECT_THAT(error.message, HasSubstr("does not have the address 10.21.1.9"));
  EXPECT_EQ(error.next, "ip addr add 10.21.1.9/24 dev br1");
}

TEST_F(Refused, APortThatSomebodyElseHolds) {
  const Cable cable("br1", kHost1);
  const Running first(plan_on("br1", kHost1), files());
  const Error error = error_of(plan_on("br1", kHost1));
  EXPECT_EQ(error.code, ErrorCode::kAddressInUse);
  EXPECT_THAT(error.message, HasSubstr("UDP port 67 is already in use"));
  EXPECT_THAT(error.place, HasSubstr("port1 (br1)"));
}

} // namespace
} // namespace ductl::netboot
