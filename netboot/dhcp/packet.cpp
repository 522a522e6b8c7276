#include "netboot/dhcp/packet.hpp"

#include <algorithm>
#include <cassert>

namespace ductl::netboot::dhcp {
namespace {

constexpr std::uint32_t kCookie = 0x63825363;
constexpr std::size_t kSnameBytes = 64, kFileBytes = 128, kHardwareBytes = 16;
constexpr std::uint8_t kEthernet = 1, kMacBytes = 6;
constexpr std::size_t kOptionBytesMax = 255;
constexpr std::size_t kIpUdpBytes = 28;

// Adds a field's options to `into`. False when one runs beyond the field.
bool read_options(ByteView field, std::map<std::uint8_t, std::string>& into) {
  Reader in(field);
  while (!in.rest().empty()) {
    const std::uint8_t code = in.u8();
    if (code == option::kEnd) break;
    if (code == option::kPad) continue;
    const ByteView value = in.take(in.u8());
    if (in.failed()) return false;
    into[code] += text_of(value);
  }
  return true;
}

std::string_view until_zero(ByteView field) {
  const std::string_view text = text_of(field);
  return text.substr(0, text.find('\0'));
}

// The options of the fields that option 52 gives to them: 1 = file, 2 = sname, 3 = both. In this order, RFC 2131 section 4.1.
bool read_overload(Packet& packet, ByteView sname, ByteView file) {
  std::uint32_t overload = 0;
  if (packet.find(option::kOverload) != nullptr) {
    const auto said = packet.number(option::kOverload, 1);
    if (!said || *said < 1 || *said > 3) return false;
    overload = *said;
  }
  if ((overload & 1) != 0 && !read_options(file, packet.options)) return false;
  if ((overload & 2) != 0 && !read_options(sname, packet.options)) return false;
  if ((overload & 1) == 0) packet.file = until_zero(file);
  if ((overload & 2) == 0) packet.sname = until_zero(sname);
  return true;
}

void write_option(Writer& out, std::uint8_t code, std::string_view value) {
  do { // RFC 3396: what is longer than an option is several of them
    const std::string_view piece = value.substr(0, kOptionBytesMax);
    out.u8(code).u8(static_cast<std::uint32_t>(piece.size())).text(piece);
    value.remove_prefix(piece.size());
  } while (!value.empty());
}

} // namespace

const std::string* Packet::find(std::uint8_t code) const {
  const auto found = options.find(code);
  return found == options.end() ? nullptr : &found->second;
}

std::optional<std::uint32_t> Packet::number(std::uint8_t code, std::size_t bytes) const {
  const std::string* value = find(code);
  if (value == nullptr || value->size() != bytes) return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : *value) number = number << 8 | static_cast<std::uint8_t>(c);
  return number;
}

MessageType Packet::type() const {
  const auto said = number(option::kMessageType, 1);
  return said && *said <= static_cast<std::uint32_t>(MessageType::Inform) ? static_cast<MessageType>(*said) : MessageType::None;
}

std::optional<Ipv4> Packet::address(std::uint8_t code) const { return number(code, 4); }

tl::expected<Packet, Fault> parse(ByteView bytes) {
  if (bytes.size() < kFixedBytes + sizeof(kCookie)) return tl::unexpected(Fault::Short);
  Reader in(bytes);
  Packet packet;
  const std::uint8_t op = in.u8(), hardware = in.u8(), hardware_bytes = in.u8();
  if (op != static_cast<std::uint8_t>(Op::Request) && op != static_cast<std::uint8_t>(Op::Reply))
    return tl::unexpected(Fault::NotEthernet);
  if (hardware != kEthernet || hardware_bytes != kMacBytes) return tl::unexpected(Fault::NotEthernet);
  packet.op = static_cast<Op>(op);
  packet.hops = in.u8();
  packet.xid = in.u32();
  packet.secs = in.u16();
  packet.flags = in.u16();
  packet.ciaddr = in.u32();
  packet.yiaddr = in.u32();
  packet.siaddr = in.u32();
  packet.giaddr = in.u32();
  const ByteView chaddr = in.take(kHardwareBytes);
  std::transform(chaddr.begin(), chaddr.begin() + kMacBytes, packet.mac.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  const ByteView sname = in.take(kSnameBytes), file = in.take(kFileBytes);
  if (in.u32() != kCookie) return tl::unexpected(Fault::NoCookie);
  if (!read_options(in.rest(), packet.options) || !read_overload(packet, sname, file)) return tl::unexpected(Fault::BadOption);
  return packet;
}

std::size_t message_bytes_max(const Packet& packet) {
  const std::size_t said = packet.number(option::kMessageSizeMax, 2).value_or(0);
  return std::max(kMessageBytesDefault, said > kIpUdpBytes ? said - kIpUdpBytes : 0);
}

std::optional<Bytes> build(const Packet& packet, std::size_t bytes_max) {
  assert(packet.sname.size() < kSnameBytes && packet.file.size() < kFileBytes);
  Writer out;
  out.u8(static_cast<std::uint8_t>(packet.op)).u8(kEthernet).u8(kMacBytes).u8(packet.hops).u32(packet.xid);
  out.u16(packet.secs).u16(packet.flags).u32(packet.ciaddr).u32(packet.yiaddr).u32(packet.siaddr).u32(packet.giaddr);
  out.raw(packet.mac).zeros(kHardwareBytes - kMacBytes).field(packet.sname, kSnameBytes).field(packet.file, kFileBytes);
  out.u32(kCookie);
  // Some ROMs look for the message type at the very start.
  if (const std::string* type = packet.find(option::kMessageType)) write_option(out, option::kMessageType, *type);
  for (const auto& [code, value] : packet.options)
    if (code != option::kMessageType) write_option(out, code, value);
  out.u8(option::kEnd);
  if (out.size() < kMessageBytesMin) out.zeros(kMessageBytesMin - out.size());
  if (out.size() > bytes_max) return std::nullopt;
  return out.take();
}

std::string option_u8(std::uint32_t value) { return std::string(1, static_cast<char>(value)); }

std::string option_u32(std::uint32_t value) {
  const Bytes bytes = Writer().u32(value).take();
  return std::string(text_of(bytes));
}

} // namespace ductl::netboot::dhcp
