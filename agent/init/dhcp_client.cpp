#include "agent/init/dhcp_client.hpp"

#include <algorithm>
#include <bit>

namespace ductl::agent::init {

using namespace netboot::dhcp;
using netboot::Ipv4;

namespace {

constexpr Duration kFirstInterval = std::chrono::milliseconds(250), kLongestInterval = std::chrono::seconds(4);
constexpr Duration kRenewIntervalMin = std::chrono::seconds(1);
constexpr int kRequestsMax = 5;                                                      // then the offer counts as withdrawn
constexpr std::uint32_t kLeaseSecondsMin = 4, kLeaseSecondsMax = 10u * 365 * 86'400, // "for ever" is the latter

    kLeaseSecondsDefault = 86'400;
constexpr Ipv4 kNetmaskDefault = 0xffffff00;
constexpr std::size_t kMessageBytesMax = 1472;

Ipv4 netmask_of(const Packet& packet) {
  const Ipv4 mask = packet.address(option::kSubnetMask).value_or(kNetmaskDefault);
  const bool contiguous = mask != 0 && std::countl_one(mask) + std::countr_zero(mask) == 32;
  return contiguous ? mask : kNetmaskDefault;
}

std::uint32_t lease_seconds(const Packet& packet) {
  const std::uint32_t said = packet.number(option::kLeaseTime, 4).value_or(kLeaseSecondsDefault);
  return std::clamp(said, kLeaseSecondsMin, kLeaseSecondsMax);
}

// An option of seconds that lies in its place within the lease; else the usual share of it.
Duration time_option(const Packet& packet, std::uint8_t code, Duration least, Duration most, Duration usual) {
  const auto said = packet.number(code, 4);
  const Duration time = said ? Duration(std::chrono::seconds(*said)) : usual;
  return time > least && time < most ? time : usual;
}

} // namespace

DhcpClient::DhcpClient(const netboot::Mac& mac, Ipv4 wanted, std::uint32_t seed, Instant now)
    : mac_(mac), wanted_(wanted), random_(seed | 1), began_(now), silent_since_(now) {
  select(now);
}

std::uint32_t DhcpClient::new_xid() { // xorshift
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

void DhcpClient::select(Instant now) {
  state_ = State::Selecting;
  xid_ = new_xid();
  offer_.reset();
  sent_ = 0;
  interval_ = kFirstInterval;
  deadline_ = now;
}

Packet DhcpClient::message(MessageType type, Instant now) const {
  Packet packet;
  packet.op = Op::Request;
  packet.xid = xid_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - began_).count();
  packet.secs = static_cast<std::uint16_t>(std::clamp<std::int64_t>(seconds, 0, 0xffff));
  packet.mac = mac_;
  packet.options[option::kMessageType] = option_u8(static_cast<std::uint32_t>(type));
  packet.options[option::kVendorClass] = "DuckAgent";
  packet.options[option::kParameterList] = {option::kSubnetMask,  option::kHostName,
                                            option::kLeaseTime,   static_cast<char>(option::kServerId),
                                            option::kRenewalTime, option::kRebindingTime};
  return packet;
}

DhcpClient::Message DhcpClient::write(const Packet& packet) const {
  Message out;
  out.bytes = build(packet, kMessageBytesMax).value_or(netboot::Bytes{}); // ours always fits
  out.from = packet.ciaddr;
  if (state_ == State::Renewing) out.to = lease_->server;
  return out;
}

// The message of the state.
DhcpClient::Message DhcpClient::next_message(Instant now) {
  if (state_ == State::Selecting) {
    Packet packet = message(MessageType::Discover, now);
    packet.flags = kBroadcastFlag;
    if (wanted_ != 0) packet.options[option::kRequestedAddress] = option_u32(wanted_);
    return write(packet);
  }
  Packet packet = message(MessageType::Request, now);
  if (state_ == State::Requesting) {
    packet.flags = kBroadcastFlag;
    packet.options[option::kRequestedAddress] = option_u32(offer_->yiaddr);
    packet.options[option::kServerId] = option_u32(*offer_->address(option::kServerId));
  } else {
    packet.ciaddr = lease_->address;
  }
  return write(packet);
}

void DhcpClient::back_off(Instant now) {
  ++sent_;
  if (state_ == State::Renewing || state_ == State::Rebinding) { // half of what is left, RFC 2131 section 4.4.5
    const Instant end = state_ == State::Renewing ? rebind_at_ : end_at_;
    deadline_ = std::min(end, now + std::max<Duration>((end - now) / 2, kRenewIntervalMin));
    return;
  }
  deadline_ = now + interval_;
  interval_ = std::min(2 * interval_, kLongestInterval);
}

void DhcpClient::advance(Instant now) {
  if (state_ == State::Bound && now >= renew_at_) {
    state_ = State::Renewing;
    xid_ = new_xid();
    silent_since_ = now;
  }
  if (state_ == State::Renewing && now >= rebind_at_) state_ = State::Rebinding;
  if (state_ == State::Rebinding && now >= end_at_) {
    wanted_ = lease_->address;
    select(now);
  }
  if (state_ == State::Requesting && sent_ >= kRequestsMax) select(now);
  if (state_ == State::Selecting && offer_ && sent_ > 1) request(*offer_, now); // no better one came
}

std::vector<DhcpClient::Message> DhcpClient::poll(Instant now) {
  if (now < deadline_) return {};
  advance(now);
  if (state_ == State::Bound) return {};
  std::vector<Message> out{next_message(now)};
  back_off(now);
  return out;
}

void DhcpClient::request(const Packet& offer, Instant now) {
  const Packet chosen = offer; // may be offer_ itself
  state_ = State::Requesting;
  offer_ = chosen;
  sent_ = 0;
  interval_ = kFirstInterval;
  deadline_ = now;
}

void DhcpClient::bind(const Packet& ack, Instant now) {
  const Duration lifetime = std::chrono::seconds(lease_seconds(ack));
  const Ipv4 known = lease_ ? lease_->server : 0;
  lease_ = Lease{ack.yiaddr, netmask_of(ack), ack.address(option::kServerId).value_or(known), lifetime};
  const Duration renew = time_option(ack, option::kRenewalTime, Duration(0), lifetime, lifetime / 2);
  const Duration rebind = time_option(ack, option::kRebindingTime, renew, lifetime, std::max(renew, lifetime / 8 * 7));
  state_ = State::Bound;
  renew_at_ = deadline_ = now + renew;
  rebind_at_ = now + rebind;
  end_at_ = now + lifetime;
  silent_since_ = now;
  offer_.reset();
}

void DhcpClient::receive(netboot::ByteView bytes, Instant now) {
  const auto packet = parse(bytes);
  if (!packet || packet->op != Op::Reply || packet->xid != xid_ || packet->mac != mac_) return;
  const auto server = packet->address(option::kServerId);
  switch (packet->type()) {
  case MessageType::Offer:
    if (state_ != State::Selecting || packet->yiaddr == 0 || !server) return; // without an address: a proxy's
    if (lease_ && packet->yiaddr != wanted_) return; // another address would cost the slices: rather keep the old one
    if (wanted_ == 0 || packet->yiaddr == wanted_) return request(*packet, now);
    if (!offer_) offer_ = *packet;
    return;
  case MessageType::Ack:
    if (state_ == State::Selecting || state_ == State::Bound || packet->yiaddr == 0) return;
    if (state_ == State::Requesting && (packet->yiaddr != offer_->yiaddr || server != offer_->address(option::kServerId))) return;
    return bind(*packet, now);
  case MessageType::Nak:
    if (state_ == State::Selecting || state_ == State::Bound) return;
    if (lease_ && server != lease_->server) return; // a stranger's word must not cost a duck that serves its slices
    wanted_ = 0;
    return select(now);
  default: return;
  }
}

} // namespace ductl::agent::init
