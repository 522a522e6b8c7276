// Two ports (one full, one proxy) with two ducks each, and a responder over them.
#pragma once

#include "netboot/boot_script.hpp"
#include "netboot/dhcp/responder.hpp"

#include "firmware.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ductl::netboot::test {

inline constexpr Ipv4 kHost1 = 0x0a150101, kHost2 = 0x0a150201, kDuck1 = 0x0a150165, kDuck2 = 0x0a150166, kDuck3 = 0x0a150265;
inline constexpr Ipv4 kRouter = 0x0a150202; // the other DHCP server of port 2
inline constexpr Mac kMac1{0x52, 0x54, 0, 0x21, 1, 1}, kMac2{0x52, 0x54, 0, 0x21, 1, 2}, kMac3{0x52, 0x54, 0, 0x21, 2, 1},
    kMac4{0x52, 0x54, 0, 0x21, 2, 2}, kStranger{0x52, 0x54, 0, 0x21, 9, 9};

inline BootPlan sample_plan() {
  BootPlan plan;
  plan.ports = {{"port1", "br1", kHost1, 24, DhcpMode::Full}, {"port2", "br2", kHost2, 24, DhcpMode::Proxy}};
  plan.ducks = {{"duck1", kMac1, 0, kDuck1}, {"duck2", kMac2, 0, kDuck2}, {"duck3", kMac3, 1, kDuck3}, {"duck4", kMac4, 1, 0}};
  return plan;
}

// The responder with what it reports, and a clock that a test moves.
struct Lab {
  explicit Lab(BootPlan p = sample_plan()) : plan(std::move(p)), watch(plan, events), responder(plan, watch, events) {}
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  std::vector<dhcp::Outgoing> receive(const RawMessage& message, int port = 0, std::uint16_t to_port = 67, Ipv4 from = 0,
                                      std::uint16_t from_port = 68) {
    const Bytes bytes = message.bytes();
    return responder.receive({bytes, port, to_port, from, from_port}, now);
  }
  // The one answer, parsed. Fails by an exception where there is none or more.
  dhcp::Packet answer(const RawMessage& message, int port = 0, std::uint16_t to_port = 67, Ipv4 from = 0,
                      std::uint16_t from_port = 68) {
    sent = receive(message, port, to_port, from, from_port);
    return dhcp::parse(sent.at(0).bytes).value();
  }
  [[nodiscard]] bool told(BootEventKind kind) const { return count(kind) != 0; }
  [[nodiscard]] long count(BootEventKind kind) const {
    return std::count_if(events.begin(), events.end(), [&](const BootEvent& e) { return e.kind == kind; });
  }
  [[nodiscard]] std::string last_text(BootEventKind kind) const {
    for (auto e = events.rbegin(); e != events.rend(); ++e)
      if (e->kind == kind) return e->text;
    return {};
  }

  BootPlan plan;
  std::vector<BootEvent> events;
  BootWatch watch;
  dhcp::Responder responder;
  std::vector<dhcp::Outgoing> sent;
  Instant now{std::chrono::hours(1)};
};

inline std::string text(const dhcp::Packet& packet, std::uint8_t code) {
  const std::string* value = packet.find(code);
  return value == nullptr ? "(none)" : *value;
}

} // namespace ductl::netboot::test
