#include "agent/transport/udp_transport.hpp"
#include "agent/transport/wait_any.hpp"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ductl::agent {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000001;

std::unique_ptr<UdpTransport> open_on(std::uint32_t address) {
  auto transport = open_udp_transport({.bind = {.address = address, .port = 0}});
  EXPECT_TRUE(transport) << (transport ? "" : transport.error().text());
  return *std::move(transport);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Waits for one frame, at most a few seconds.
std::string receive_one(Transport& transport, Endpoint* from = nullptr) {
  for (int i = 0; i < 50; ++i) {
    std::array<IncomingFrame, 1> burst;
    if (transport.receive(burst) == 1) {
      std::string text(reinterpret_cast<const char*>(burst[0].bytes.data()), burst[0].bytes.size());
      if (from != nullptr) *from = burst[0].from;
      transport.release(burst);
      return text;
    }
    transport.wait(std::chrono::milliseconds(100));
  }
  return "(nothing came)";
}

TEST(UdpTransport, GathersHeadAndBodyIntoOneFrame) {
  const auto a = open_on(kLoopback), b = open_on(kLoopback);
  const OutgoingFrame frame{.to = b->local(), .head = bytes_of("head"), .body = bytes_of("body")};
  ASSERT_EQ(a->send({&frame, 1}), 1u);
  Endpoint from;
  EXPECT_EQ(receive_one(*b, &from), "headbody");
  EXPECT_EQ(from, a->local());
}

TEST(UdpTransport, LoopbackTakesFramesOf60KiB) {
  const auto a = open_on(kLoopback), b = open_on(0x7f150165); // 127.21.1.101
  EXPECT_EQ(a->mtu(), 60u << 10);
  const std::string large(a->mtu(), 'x');
  const OutgoingFrame frame{.to = b->local(), .head = {}, .body = bytes_of(large)};
  ASSERT_EQ(a->send({&frame, 1}), 1u);
  EXPECT_EQ(receive_one(*b), large);
}

TEST(UdpTransport, BurstsLongerThanOneCallArriveInOrder) {
  const auto a = open_on(kLoopback), b = open_on(kLoopback);
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::to_string(i));
  std::vector<OutgoingFrame> burst;
  for (const auto& text : texts) burst.push_back({.to = b->local(), .head = bytes_of(text), .body = {}});
  ASSERT_EQ(a->send(burst), 100u);
  for (const auto& text : texts) EXPECT_EQ(receive_one(*b), text);
}

TEST(UdpTransport, BorrowedFramesStayUntilReleased) {
  const auto a = open_on(kLoopback), b = open_on(kLoopback);
  std::vector<IncomingFrame> held;
  for (int i = 0; i < 200; ++i) {
    const std::string text = std::to_string(i);
    const OutgoingFrame frame{.to = b->local(), .head = bytes_of(text), .body = {}};
    ASSERT_EQ(a->send({&frame, 1}), 1u);
  }
  std::array<IncomingFrame, 8> burst;
  for (int tries = 0; tries < 1000; ++tries) { // hold until the transport has nothing left to lend
    const std::size_t count = b->receive(burst);
    held.insert(held.end(), burst.begin(), burst.begin() + static_cast<std::ptrdiff_t>(count));
  }
  ASSERT_GE(held.size(), 8u);
  ASSERT_LT(held.size(), 200u);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(held[i].bytes.data()), held[i].bytes.size()), std::to_string(i));
  }
  b->release(held);
  EXPECT_EQ(receive_one(*b), std::to_string(held.size()));
}

TEST(UdpTransport, AFrameThatCannotBeSentDoesNotStopTheOthers) {
  const auto a = open_on(kLoopback), b = open_on(kLoopback);
  const std::string too_long(70000, 'x');
  const std::array<OutgoingFrame, 2> burst{OutgoingFrame{.to = b->local(), .head = {}, .body = bytes_of(too_long)},
                                           OutgoingFrame{.to = b->local(), .head = bytes_of("next"), .body = {}}};
  EXPECT_EQ(a->send(burst), 2u);
  EXPECT_EQ(receive_one(*b), "next");
}

TEST(UdpTransport, WakeEndsAWaitFromAnotherThread) {
  const auto a = open_on(kLoopback);
  a->wake();
  const Instant start = Clock::now();
  a->wait(std::chrono::seconds(20)); // a wake before the wait counts too
  std::thread waker([&] { a->wake(); });
  a->wait(std::chrono::seconds(20));
  waker.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST(UdpTransport, AnAddressInUseIsNamedWithItsRemedy) {
  const auto a = open_on(kLoopback);
  const auto again = open_udp_transport({.bind = a->local()});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAddressInUse);
  EXPECT_NE(again.error().message.find("127.0.0.1:" + std::to_string(a->local().port)), std::string::npos);
  EXPECT_FALSE(again.error().next.empty());
}

TEST(UdpTransport, AnAddressOfNobodyIsAnError) {
  const auto nobody = open_udp_transport({.bind = {.address = 0xc0000201, .port = 0}}); // 192.0.2.1
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("192.0.2.1"), std::string::npos);
}

TEST(UdpTransport, ReceiveBufferIsWhatTheKernelGave) { EXPECT_GE(open_on(kLoopback)->receive_buffer_bytes(), 64u << 10); }

TEST(WaitAny, ReturnsForWhicheverPortHasAFrame) {
  std::vector<std::unique_ptr<Transport>> ports;
  for (int i = 0; i < 3; ++i) ports.push_back(open_on(kLoopback));
  const auto sender = open_on(kLoopback);
  const OutgoingFrame frame{.to = ports[2]->local(), .head = bytes_of("x"), .body = {}};
  ASSERT_EQ(sender->send({&frame, 1}), 1u);
  const Instant start = Clock::now();
  wait_any(ports, std::chrono::seconds(20));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(receive_one(*ports[2]), "x");
  wait_any(ports, std::chrono::milliseconds(1)); // nothing there: the timeout ends it
}

} // namespace
} // namespace ductl::agent
