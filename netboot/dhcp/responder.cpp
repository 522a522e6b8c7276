#include "netboot/dhcp/responder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace ductl::netboot::dhcp {
namespace {

constexpr std::string_view kPxeClient = "PXEClient", kHttpClient = "HTTPClient";
constexpr std::size_t kUuidBytes = 17; // a type, which is 0, and a UUID

// Options inside option 43, PXE 2.1 section 2.
constexpr std::uint8_t kDiscoveryControl = 6, kMenuPrompt = 10, kBootItem = 71;
constexpr std::uint8_t kUseBootFile = 8; // "if there is a boot file name, take it: no menu, no discovery"
constexpr std::size_t kBootItemBytes = 4;

// Options inside option 175, iPXE's own.
constexpr std::uint8_t kNoProxyWait = 176;

std::string suboption(std::uint8_t code, std::string_view value) {
  return option_u8(code) + option_u8(static_cast<std::uint32_t>(value.size())) + std::string(value);
}

std::string end_mark() { return option_u8(option::kEnd); }

// "Take the boot file"; with a prompt that is over at once, which some ROMs want to see beside it (PXE-E74).
std::string skip_discovery() {
  using namespace std::string_literals;
  return suboption(kDiscoveryControl, option_u8(kUseBootFile)) + suboption(kMenuPrompt, "\0PXE"s) + end_mark();
}

// iPXE need not wait two seconds for a proxy's offer: there is none.
std::string no_proxy_wait() { return suboption(kNoProxyWait, option_u8(1)) + end_mark(); }

// The item that a client chose from a boot menu; echoed, or it takes the answer for another's.
std::optional<std::string> boot_item(const Packet& packet) {
  const std::string* vendor = packet.find(option::kVendorSpecific);
  if (vendor == nullptr) return std::nullopt;
  for (Reader in(bytes_of(*vendor)); !in.rest().empty();) {
    const std::uint8_t code = in.u8();
    if (code == option::kEnd) break;
    if (code == option::kPad) continue;
    const ByteView value = in.take(in.u8());
    if (!in.failed() && code == kBootItem && value.size() == kBootItemBytes) return std::string(text_of(value));
  }
  return std::nullopt;
}

bool usable_uuid(const std::string* uuid) { return uuid != nullptr && uuid->size() == kUuidBytes && uuid->front() == 0; }

BootStage stage_of(ClientKind kind) {
  switch (kind) {
  case ClientKind::Ipxe: return BootStage::Loader;
  case ClientKind::Agent: return BootStage::Agent;
  default: return BootStage::Firmware;
  }
}

} // namespace

Responder::Responder(const BootPlan& plan, BootWatch& watch, std::vector<BootEvent>& events)
    : plan_(plan), watch_(watch), events_(events), seen_addresses_(plan.ducks.size()), ignored_xids_(plan.ducks.size()) {}

std::vector<Outgoing> Responder::receive(const Incoming& in, Instant now) {
  ++counts_.received;
  const auto packet = parse(in.bytes);
  if (!packet) {
    ++counts_.malformed;
    return {};
  }
  if (packet->op == Op::Reply || in.to_port == kClientPort) {
    overhear(*packet, in.port_index, now);
    return {};
  }
  const Client client = identify(*packet);
  const auto duck = duck_of(plan_, packet->mac);
  if (!duck) {
    ++counts_.unknown;
    if (packet->type() == MessageType::Discover) watch_.unknown_mac(in.port_index, packet->mac, to_string(client.kind), now);
    return {};
  }
  const BootDuck& entry = plan_.ducks[*duck];
  if (entry.port_index != in.port_index && packet->giaddr == 0) { // a relayed message comes in wherever the relay is
    watch_.wrong_port(*duck, in.port_index, now);
    return {};
  }
  const Case c{*packet, in, plan_.ports[entry.port_index], *duck, entry, client, choose_target(plan_.names, entry, client), now};
  std::vector<Outgoing> out;
  if (const auto packet_out = answer(c)) send(c, *packet_out, out);
  return out;
}

// What other servers say: offers and acknowledgements that we see are broadcasts, or sent to this machine.
void Responder::overhear(const Packet& packet, int port, Instant now) {
  const MessageType type = packet.type();
  if (packet.op != Op::Reply || (type != MessageType::Offer && type != MessageType::Ack && type != MessageType::Nak)) return;
  const auto server = packet.address(option::kServerId);
  if (!server || *server == plan_.ports[port].address) return;
  watch_.foreign_server(port, *server, type == MessageType::Offer ? "its OFFER was seen" : "its answer was seen", now);
}

std::optional<int> Responder::duck_at(Ipv4 address) const {
  if (address == 0) return std::nullopt;
  for (std::size_t i = 0; i < plan_.ducks.size(); ++i)
    if (plan_.ducks[i].address == address) return static_cast<int>(i);
  const auto seen = std::find(seen_addresses_.begin(), seen_addresses_.end(), address);
  return seen == seen_addresses_.end() ? std::nullopt : std::optional(static_cast<int>(seen - seen_addresses_.begin()));
}

std::optional<Packet> Responder::answer(const Case& c) {
  const MessageType type = c.packet.type();
  if (type == MessageType::Decline) {
    add(BootEventKind::Conflict, c,
        fmt::format("{} found its address {} in use by somebody else: look for a second machine "
                    "with this address",
                    c.duck.name, inventory::to_string(c.duck.address)));
    return std::nullopt;
  }
  const bool asks = type == MessageType::Discover || type == MessageType::Request || type == MessageType::Inform;
  if (!asks) return std::nullopt; // BOOTP without a type, RELEASE, and what only servers say
  if (c.client.kind == ClientKind::Agent) watch_.agent_seen(c.duck_index);
  if (c.target.form == BootTarget::Form::None) {
    if (ignored_xids_[c.duck_index] != c.packet.xid)
      add(BootEventKind::Ignored, c,
          fmt::format("{} is not answered ({}): {}", c.duck.name, to_string(c.client.kind), c.target.reason));
    ignored_xids_[c.duck_index] = c.packet.xid;
    return std::nullopt;
  }
  if (c.in.to_port == kProxyPort) return on_proxy_request(c);
  if (type == MessageType::Discover) return on_discover(c);
  return type == MessageType::Request ? on_request(c) : on_inform(c);
}

std::optional<Packet> Responder::on_discover(const Case& c) {
  const bool boots = c.target.form != BootTarget::Form::Address;
  if (c.port.mode == DhcpMode::Proxy && !boots) return std::nullopt; // an address is all it wants, and we give none
  if (boots)
    watch_.discover(c.duck_index, c.duck.port_index, stage_of(c.client.kind), c.packet.xid, to_string(c.client.kind), c.now);
  if (c.port.mode == DhcpMode::Full) return lease(c, MessageType::Offer);
  const bool later = c.client.kind == ClientKind::PxeEfi && c.duck.proxy_style == ProxyStyle::Port4011;
  return boot_offer(c, MessageType::Offer, !later);
}

std::optional<Packet> Responder::on_request(const Case& c) {
  const Ipv4 asked = c.packet.address(option::kRequestedAddress).value_or(c.packet.ciaddr);
  if (asked == 0) return std::nullopt; // contradicts itself
  watch_.request(c.duck_index);
  const bool another = chose_another(c);
  if (c.port.mode == DhcpMode::Proxy) {    // the other server's to answer
    seen_addresses_[c.duck_index] = asked; // whose fetches come from there
    if (c.client.kind == ClientKind::Agent)
      add(BootEventKind::AgentAsked, c, fmt::format("{}'s agent runs and has {}", c.duck.name, inventory::to_string(asked)));
    return std::nullopt;
  }
  if (another) return std::nullopt;
  if (asked != c.duck.address) return refuse(c, asked);
  leased(c);
  return lease(c, MessageType::Ack);
}

// A REQUEST names the server whose offer it takes; without a name it renews what it has, which is ours to judge in full mode.
bool Responder::chose_another(const Case& c) {
  const auto server = c.packet.address(option::kServerId);
  if (!server || *server == c.port.address) return false;
  watch_.foreign_server(c.duck.port_index, *server, fmt::format("{} took its offer", c.duck.name).c_str(), c.now);
  return true;
}

std::optional<Packet> Responder::refuse(const Case& c, Ipv4 asked) {
  const std::string why = fmt::format("{} asks for {}, its address is {}", c.duck.name, inventory::to_string(asked),
                                      inventory::to_string(c.duck.address));
  add(BootEventKind::Refused, c, why);
  Packet nak = reply(c, MessageType::Nak);
  nak.ciaddr = 0;
  nak.options[option::kMessage] = "not your address";
  return nak;
}

void Responder::leased(const Case& c) {
  const std::string address = inventory::to_string(c.duck.address);
  if (c.client.kind == ClientKind::Agent)
    add(BootEventKind::AgentAsked, c, fmt::format("{}'s agent runs and has {}", c.duck.name, address));
  else if (c.client.kind == ClientKind::Other)
    add(BootEventKind::OtherSystem, c,
        fmt::format("{} has {}, asked for by another system than ours: it booted from a disk?", c.duck.name, address));
  else
    add(BootEventKind::Leased, c,
        fmt::format("{} has {} and is sent to {} ({})", c.duck.name, address, c.target.name, to_string(c.client.kind)));
}

// Somebody who has an address and wants the rest.
std::optional<Packet> Responder::on_inform(const Case& c) {
  if (c.packet.ciaddr == 0) return std::nullopt;
  if (c.port.mode == DhcpMode::Proxy) {
    if (c.target.form == BootTarget::Form::Address) return std::nullopt;
    return boot_offer(c, MessageType::Ack, true);
  }
  Packet ack = lease(c, MessageType::Ack);
  ack.yiaddr = 0;
  ack.options.erase(option::kLeaseTime);
  return ack;
}

// Port 4011: EDK2 comes here when the OFFER said PXEClient without "skip discovery", in either mode.
std::optional<Packet> Responder::on_proxy_request(const Case& c) {
  if (c.packet.type() == MessageType::Discover || c.target.form == BootTarget::Form::Address) return std::nullopt;
  if (c.in.from != 0) seen_addresses_[c.duck_index] = c.in.from;
  watch_.request(c.duck_index);
  add(BootEventKind::Leased, c,
      fmt::format("{} is sent to {} ({}, port 4011)", c.duck.name, c.target.name, to_string(c.client.kind)));
  Packet ack = boot_offer(c, MessageType::Ack, true);
  ack.ciaddr = c.packet.ciaddr;
  const auto item = boot_item(c.packet);
  if (item)
    ack.options[option::kVendorSpecific] = suboption(kBootItem, *item) + end_mark();
  else
    ack.options.erase(option::kVendorSpecific);
  return ack;
}

Packet Responder::reply(const Case& c, MessageType type) const {
  Packet packet;
  packet.op = Op::Reply;
  packet.xid = c.packet.xid;
  packet.flags = c.packet.flags;
  packet.giaddr = c.packet.giaddr;
  packet.mac = c.packet.mac;
  packet.options[option::kMessageType] = option_u8(static_cast<std::uint8_t>(type));
  packet.options[option::kServerId] = option_u32(c.port.address);
  const std::string* uuid = c.packet.find(option::kClientUuid);
  if (usable_uuid(uuid)) packet.options[option::kClientUuid] = *uuid;
  return packet;
}

// Full mode: an address, and where there is something to boot, that.
Packet Responder::lease(const Case& c, MessageType type) const {
  Packet packet = reply(c, type);
  if (type == MessageType::Ack) packet.ciaddr = c.packet.ciaddr;
  packet.yiaddr = c.duck.address;
  packet.options[option::kSubnetMask] = option_u32(netmask(c.port.prefix_length));
  packet.options[option::kLeaseTime] = option_u32(static_cast<std::uint32_t>(plan_.lease.count()));
  packet.options[option::kHostName] = c.duck.name;
  if (c.target.form != BootTarget::Form::Address) add_boot(packet, c);
  return packet;
}

void Responder::add_boot(Packet& packet, const Case& c) const {
  packet.siaddr = c.port.address;
  if (c.target.form == BootTarget::Form::Url) {
    packet.options[option::kBootFile] = boot_url(plan_, c.duck.port_index, c.target.name);
    if (c.client.kind == ClientKind::Ipxe)
      packet.options[option::kIpxe] = no_proxy_wait();
    else
      packet.options[option::kVendorClass] = kHttpClient; // without it UEFI HTTP boot does not look at the rest
    return;
  }
  // No option 60 here: with it and without option 43, EDK2 takes us for a boot server behind port 4011 (edk2#8149).
  packet.file = c.target.name;
  if (c.client.kind == ClientKind::PxeEfi) packet.options[option::kBootFile] = c.target.name;
}

// Proxy mode and port 4011: no address, only what to boot and from where.
Packet Responder::boot_offer(const Case& c, MessageType type, bool with_file) const {
  Packet packet = reply(c, type);
  packet.siaddr = c.port.address;
  packet.sname = inventory::to_string(c.port.address);
  if (c.client.kind == ClientKind::HttpEfi) {
    packet.options[option::kVendorClass] = kHttpClient;
    packet.options[option::kBootFile] = boot_url(plan_, c.duck.port_index, c.target.name);
    return packet;
  }
  packet.options[option::kVendorClass] = kPxeClient;
  if (!with_file) return packet;
  packet.file = c.target.form == BootTarget::Form::Url ? boot_url(plan_, c.duck.port_index, c.target.name) : c.target.name;
  packet.options[option::kVendorSpecific] = skip_discovery();
  return packet;
}

// RFC 2131 section 4.1, and PXE's port 4011, which answers to where it was asked from.
void Responder::send(const Case& c, const Packet& packet, std::vector<Outgoing>& out) {
  Packet final_packet = packet;
  Outgoing sent{.bytes = {}, .port_index = c.in.port_index, .hardware = {}, .duck_index = c.duck_index};
  const bool proxied = c.port.mode == DhcpMode::Proxy && packet.type() == MessageType::Offer;
  if (c.in.to_port == kProxyPort && c.in.from != 0) {
    sent.from_port = kProxyPort;
    sent.to = c.in.from;
    sent.to_port = c.in.from_port;
  } else if (c.packet.giaddr != 0) {
    sent.to = c.packet.giaddr;
    sent.to_port = kServerPort;
    if (packet.type() == MessageType::Nak)
      final_packet.flags |= kBroadcastFlag; // the relay must not send it to the wrong address
  } else if (packet.type() == MessageType::Nak || proxied) {
    final_packet.flags |= kBroadcastFlag; // sent to all: a client without an address hears nothing else
  } else if (c.packet.ciaddr != 0) {
    sent.to = c.packet.ciaddr;
  } else if (!c.packet.wants_broadcast() && packet.yiaddr != 0) {
    sent.to = packet.yiaddr;
    sent.hardware = c.packet.mac;
  }
  auto bytes = build(final_packet, message_bytes_max(c.packet));
  if (!bytes)
    return add(
        BootEventKind::Trouble, c,
        fmt::format("the answer to {} is longer than the {} bytes that it takes", c.duck.name, message_bytes_max(c.packet)));
  sent.bytes = std::move(*bytes);
  ++counts_.sent;
  out.push_back(std::move(sent));
}

void Responder::add(BootEventKind kind, const Case& c, std::string text) {
  events_.push_back({.kind = kind,
                     .when = c.now,
                     .port_index = c.in.port_index,
                     .duck_index = c.duck_index,
                     .mac = c.duck.mac,
                     .address = 0,
                     .file = {},
                     .text = std::move(text)});
}

} // namespace ductl::netboot::dhcp
