#include "firmware.hpp"

#include <algorithm>

namespace ductl::netboot::test {

using namespace std::string_literals;

namespace {

const std::string kUuid = "\0\x12\x34\x56\x78\x9a\xbc\xde\xf0\x01\x02\x03\x04\x05\x06\x07\x08"s;
const std::string kOvmfParameters = "\1\2\3\4\5\6\x0c\x0d\x0f\x11\x12\x16\x17\x1c\x28\x29\x2a\x2b\x32\x33\x36\x3a\x3b\x3c\x42"
                                    "\x43\x61\x80\x81\x82\x83\x84\x85\x86\x87"s;
const std::string kIpxeParameters = "\1\3\6\7\x0c\x0f\x11\x1a\x2b\x3c\x42\x43\x77\x80\x81\x82\x83\x84\x85\x86\x87\xaf\xcb"s;

std::string raw(const Mac& mac) { return {mac.begin(), mac.end()}; }

RawMessage discover(const Mac& mac, const std::string& vendor, std::uint16_t flags) {
  RawMessage m;
  m.mac = mac;
  m.flags = flags;
  m.with(53, u8(1)).with(57, u16(1472)).with(60, vendor);
  return m;
}

RawMessage ipxe(const Mac& mac, const std::string& vendor, std::uint32_t arch, const std::string& undi) {
  RawMessage m = discover(mac, vendor, 0);
  m.secs = 4;
  m.with(93, u16(arch)).with(94, undi);
  m.with(175, "\xb1\x05\x01\x1a\xf4\x10\x00\xeb\x03\x01\x00\x00\x17\x01\x01\x22\x01\x01\x13\x01\x01\x14\x01\x01\x11\x01\x01\x27"
              "\x01\x01\x19\x01\x01\x10\x01\x02\x21\x01\x01\x15\x01\x01\x18\x01\x01\x12\x01\x01"s);
  return m.with(61, "\1"s + raw(mac)).with(97, kUuid).with(55, kIpxeParameters).with(77, "iPXE");
}

} // namespace

RawMessage& RawMessage::with(std::uint8_t code, std::string value) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const RawOption& o) { return o.code == code; });
  if (found != options.end())
    found->value = std::move(value);
  else
    options.push_back({code, std::move(value)});
  return *this;
}

RawMessage& RawMessage::without(std::uint8_t code) {
  std::erase_if(options, [&](const RawOption& o) { return o.code == code; });
  return *this;
}

Bytes RawMessage::bytes() const {
  std::string out;
  out += u8(op) + "\1\6"s + u8(hops) + u32(xid) + u16(secs) + u16(flags) + u32(ciaddr) + u32(yiaddr) + u32(siaddr) + u32(giaddr);
  out += raw(mac) + std::string(10, '\0');
  out += sname + std::string(64 - sname.size(), '\0') + file + std::string(128 - file.size(), '\0') + "\x63\x82\x53\x63";
  for (const RawOption& o : options) out += u8(o.code) + u8(static_cast<std::uint32_t>(o.value.size())) + o.value;
  out += "\xff";
  const ByteView view = bytes_of(out);
  return {view.begin(), view.end()};
}

RawMessage bios_ipxe(const Mac& mac) { return ipxe(mac, "PXEClient:Arch:00000:UNDI:002001", 0, "\1\2\1"s); }
RawMessage uefi_ipxe(const Mac& mac) { return ipxe(mac, "PXEClient:Arch:00007:UNDI:003010", 7, "\1\3\x0a"s); }

RawMessage uefi_pxe(const Mac& mac) {
  return discover(mac, "PXEClient:Arch:00007:UNDI:003000", 0x8000)
      .with(55, kOvmfParameters)
      .with(97, kUuid)
      .with(94, "\1\3\0"s)
      .with(93, u16(7));
}

RawMessage uefi_http(const Mac& mac) {
  return discover(mac, "HTTPClient:Arch:00016:UNDI:003000", 0x8000)
      .with(55, "\1\2\3\4\5\6\x0c\x0d\x0f\x43\x61\xeb"s)
      .with(97, kUuid)
      .with(94, "\1\3\0"s)
      .with(93, u16(16));
}

RawMessage intel_rom(const Mac& mac) {
  return discover(mac, "PXEClient:Arch:00000:UNDI:002001", 0x8000)
      .with(55, "\1\2\3\5\6\x0b\x0c\x0d\x0f\x10\x11\x12\x2b\x36\x3c\x43\x80\x81"s)
      .with(93, u16(0))
      .with(94, "\1\2\1"s);
}

RawMessage duck_agent(const Mac& mac) { return discover(mac, "DuckAgent", 0x8000).with(55, "\1\3\x0c\x33"s).without(57); }

RawMessage disk_system(const Mac& mac) {
  RawMessage m;
  m.mac = mac;
  return m.with(53, u8(1)).with(61, "\xff\x12\x34\x56\x78\0\1\0\1"s).with(12, "windows"s).with(55, "\1\3\6\x0f"s);
}

RawMessage request_of(RawMessage discover, Ipv4 address, Ipv4 server) {
  return discover.with(53, u8(3)).with(50, u32(address)).with(54, u32(server));
}

RawMessage proxy_request_of(RawMessage discover, Ipv4 own) {
  discover.flags = 0;
  discover.ciaddr = own;
  return discover.with(53, u8(3));
}

std::string u8(std::uint32_t value) { return std::string(1, static_cast<char>(value)); }
std::string u16(std::uint32_t value) { return u8(value >> 8) + u8(value); }
std::string u32(std::uint32_t value) { return u16(value >> 16) + u16(value); }

} // namespace ductl::netboot::test
