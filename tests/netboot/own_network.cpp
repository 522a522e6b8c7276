#include "own_network.hpp"

#include "tests/support/own_network.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::netboot::test {
namespace {

constexpr std::uint16_t kArp = 0x0806, kIpv4 = 0x0800;

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

class Control { // for ioctl
public:
  Control() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~Control() { ::close(fd_); }
  void call(const std::string& interface, unsigned long what, ifreq& request) const {
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    if (::ioctl(fd_, what, &request) != 0) give_up("ioctl on " + interface);
  }
  void set_address(const std::string& interface, unsigned long what, Ipv4 address) const {
    ifreq request{};
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address);
    std::memcpy(&request.ifr_addr, &in, sizeof in);
    call(interface, what, request);
  }
  void up(const std::string& interface) const {
    ifreq request{};
    call(interface, SIOCGIFFLAGS, request);
    request.ifr_flags |= IFF_UP;
    call(interface, SIOCSIFFLAGS, request);
  }

private:
  int fd_;
};

Bytes bytes_of_frame(const EthernetFrame& frame) {
  return Writer().raw(frame.to).raw(frame.from).u16(frame.type).raw(ByteView(frame.payload)).take();
}

Mac read_mac(Reader& in) {
  Mac mac{};
  for (auto& b : mac) b = in.u8();
  return mac;
}

} // namespace

std::string enter_own_network() {
  static const bool entered = ductl::test::enter_own_network();
  return entered ? "" : "this user may not make a network namespace";
}

Cable::Cable(const std::string& name, Ipv4 address) : tap_(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)) {
  if (tap_ < 0) give_up("/dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(tap_, TUNSETIFF, &request) != 0) give_up("TAP interface " + name);
  std::ofstream("/proc/sys/net/ipv6/conf/" + name + "/accept_ra") << 0;
  const Control control;
  control.set_address(name, SIOCSIFADDR, address);
  control.set_address(name, SIOCSIFNETMASK, netmask(24));
  control.up(name);
  ifreq hardware{};
  control.call(name, SIOCGIFHWADDR, hardware);
  std::memcpy(host_mac_.data(), hardware.ifr_hwaddr.sa_data, host_mac_.size());
}

Cable::~Cable() { ::close(tap_); }

void Cable::send(const EthernetFrame& frame) {
  const Bytes bytes = bytes_of_frame(frame);
  if (::write(tap_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) give_up("write to TAP");
}

void Cable::send_udp(const Mac& from_mac, const UdpEnds& ends, ByteView payload) {
  send({ends.to == 0xffffffff ? kEveryone : host_mac_, from_mac, kIpv4, ipv4_udp_packet(ends, payload)});
}

std::optional<EthernetFrame> Cable::receive(const Wanted& wanted, std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    Bytes buffer(65536);
    const ssize_t got = ::read(tap_, buffer.data(), buffer.size());
    if (got < 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd waiting{tap_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count()) + 1) <= 0) return std::nullopt;
      continue;
    }
    Reader in(ByteView(buffer).first(static_cast<std::size_t>(got)));
    EthernetFrame frame;
    frame.to = read_mac(in);
    frame.from = read_mac(in);
    frame.type = in.u16();
    frame.payload.assign(in.rest().begin(), in.rest().end());
    answer_arp(frame);
    if (wanted(frame)) return frame;
  }
}

std::optional<Cable::Heard> Cable::receive_udp(std::uint16_t to_port, std::chrono::milliseconds timeout) {
  const auto is_it = [&](const EthernetFrame& frame) {
    const auto datagram = frame.type == kIpv4 ? read_ipv4_udp(frame.payload) : std::nullopt;
    return datagram && datagram->ends.to_port == to_port;
  };
  auto frame = receive(is_it, timeout);
  if (!frame) return std::nullopt;
  const auto datagram = read_ipv4_udp(frame->payload);
  Heard heard{{}, datagram->ends, {datagram->payload.begin(), datagram->payload.end()}};
  heard.frame = std::move(*frame);
  return heard;
}

void Cable::answer_arp(Ipv4 address, const Mac& mac) {
  own_ = address;
  own_mac_ = mac;
}

void Cable::answer_arp(const EthernetFrame& request) {
  if (request.type != kArp || own_ == 0) return;
  Reader in(request.payload);
  (void)in.take(6);
  if (in.u16() != 1) return;
  const Mac asker = read_mac(in);
  const Ipv4 asker_address = in.u32();
  (void)in.take(6);
  if (in.u32() != own_) return;
  Writer reply;
  reply.u16(1).u16(kIpv4).u8(6).u8(4).u16(2).raw(own_mac_).u32(own_).raw(asker).u32(asker_address);
  send({asker, own_mac_, kArp, reply.take()});
}

} // namespace ductl::netboot::test
