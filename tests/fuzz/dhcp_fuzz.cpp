// Any datagram on any of the DHCP server's ports: what is parsed can be built and read back, and what is answered is a sound
// DHCP reply to a MAC of the plan, within the length that the client takes.
#include "netboot/dhcp/responder.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace ductl::netboot; // NOLINT: a program of its own

void check(bool sound) {
  if (!sound) std::abort();
}

BootPlan plan_of(std::uint8_t choice) {
  BootPlan plan;
  plan.ports = {{"a", "br1", 0x0a150101, 24, DhcpMode::Full}, {"b", "br2", 0x0a150201, 24, DhcpMode::Proxy}};
  const auto chain = static_cast<Chain>(choice % 4);
  const auto style = static_cast<ProxyStyle>(choice / 4 % 2);
  plan.ducks = {{"duck1", {2, 0, 0, 0, 0, 1}, 0, 0x0a150165, chain, style}, {"duck2", {2, 0, 0, 0, 0, 2}, 1, 0, chain, style}};
  return plan;
}

void check_round_trip(ByteView bytes) {
  const auto packet = dhcp::parse(bytes);
  if (!packet) return;
  // What parse() takes may be longer than the fields that build() writes: 128 and 64 bytes without a zero.
  dhcp::Packet copy = *packet;
  copy.file.resize(std::min<std::size_t>(copy.file.size(), 127));
  copy.sname.resize(std::min<std::size_t>(copy.sname.size(), 63));
  copy.options.erase(dhcp::option::kOverload);
  const auto built = dhcp::build(copy, 1u << 20);
  check(built.has_value());
  const auto again = dhcp::parse(*built);
  check(again && again->options == copy.options && again->mac == copy.mac && again->file == copy.file);
}

} // namespace

// The first byte chooses the plan, the second the port, the third the socket; the rest is the datagram.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const BootPlan plan = plan_of(data[0]);
  std::vector<BootEvent> events;
  BootWatch watch(plan, events);
  dhcp::Responder responder(plan, watch, events);
  const std::uint16_t sockets[] = {67, 4011, 68};
  const ByteView bytes = std::as_bytes(std::span(data, size)).subspan(3);
  check_round_trip(bytes);
  const dhcp::Incoming in{bytes, data[1] % 2, sockets[data[2] % 3], data[2] & 4 ? 0x0a150165u : 0u, 68};
  for (int i = 0; i < 2; ++i) {
    const auto out = responder.receive(in, ductl::Instant(std::chrono::hours(1)));
    check(out.size() <= 1);
    for (const dhcp::Outgoing& sent : out) {
      const auto asked = dhcp::parse(bytes), reply = dhcp::parse(sent.bytes);
      check(asked && reply && reply->op == dhcp::Op::Reply && reply->xid == asked->xid && duck_of(plan, reply->mac));
      check(sent.bytes.size() >= 300 && sent.bytes.size() <= dhcp::message_bytes_max(*asked));
      check(reply->yiaddr == 0 || reply->yiaddr == plan.ducks[*duck_of(plan, reply->mac)].address);
    }
  }
  for (const BootEvent& event : events)
    for (const unsigned char c : event.text) check(c >= ' ' && c < 0x7f);
  return 0;
}
