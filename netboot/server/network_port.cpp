#include "netboot/server/network_port.hpp"

#include "netboot/http/port_holder.hpp"
#include "netboot/ipv4_udp.hpp"
#include "netboot/router/advertisement.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace ductl::netboot {
namespace {

constexpr std::uint16_t kTftpPort = 69;
constexpr int kListenBacklog = 64, kUdpBufferBytes = 1 << 20;
constexpr std::uint8_t kAllRoutersMac[6] = {0x33, 0x33, 0, 0, 0, 2};

// Classic BPF on what follows the Ethernet header, so that the data plane's packets are not copied to us.
sock_filter kSolicitationFilter[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6), // next header
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 3),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 40), // ICMPv6 type
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 133, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
    BPF_STMT(BPF_RET | BPF_K, 0),
};
sock_filter kClientPortFilter[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9), // protocol
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6), // fragment offset
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), // length of the IP header
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),  // destination port
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, dhcp::kClientPort, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

sockaddr_in endpoint(Ipv4 address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  out.sin_port = htons(port);
  return out;
}

template <class T> bool set(int socket, int level, int name, const T& value) {
  return ::setsockopt(socket, level, name, &value, sizeof value) == 0;
}

bool bind_to_device(int socket, const std::string& interface) {
  return ::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size() + 1)) == 0;
}

template <class Address> bool bind_socket(int socket, const Address& address) {
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Why a socket could not be had, in words, from errno.
tl::unexpected<Error> socket_error(const BootPort& port, const std::string& what, const std::string& holder = {}) {
  const int reason = errno;
  const std::string place = fmt::format("{} ({})", port.name, port.interface);
  if (reason == EADDRINUSE)
    return fail(ErrorCode::kAddressInUse, fmt::format("{} is already in use{}", what, holder.empty() ? "" : " by " + holder),
                place,
                "stop that program (dnsmasq, isc-dhcp-server, tftpd and libvirt are usual ones); `ss -lpn` shows who it is");
  if (reason == EPERM || reason == EACCES)
    return fail(ErrorCode::kBootServer, fmt::format("{} may not be opened by this user", what), place,
                "run it as root, or give it CAP_NET_BIND_SERVICE and CAP_NET_RAW; both are dropped once the sockets are open");
  if (reason == EADDRNOTAVAIL)
    return fail(ErrorCode::kBootServer,
                fmt::format("this machine does not have the address {}", inventory::to_string(port.address)), place,
                fmt::format("ip addr add {}/{} dev {}", inventory::to_string(port.address), port.prefix_length, port.interface));
  return fail(ErrorCode::kBootServer, fmt::format("{} cannot be opened: {}", what, std::strerror(reason)), place,
              "check that the interface is there and up: `ip link`");
}

// A packet socket that gets what `filter` lets through and nothing before.
Expected<Descriptor> packet_socket(const BootPort& port, int interface, std::uint16_t protocol, std::span<sock_filter> filter) {
  Descriptor fd(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = interface;
  if (!fd.open() || !set(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, program) || !bind_socket(fd.get(), address))
    return socket_error(port, "a packet socket");
  return fd;
}

bool send_frame(int socket, int interface, std::uint16_t protocol, std::span<const std::uint8_t, 6> to, ByteView packet) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = interface;
  address.sll_halen = 6;
  std::copy(to.begin(), to.end(), address.sll_addr);
  return ::sendto(socket, packet.data(), packet.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                  sizeof address) == static_cast<ssize_t>(packet.size());
}

} // namespace

Expected<NetworkPort> NetworkPort::open(const BootPort& boot_port, std::uint16_t http_port) {
  NetworkPort port;
  port.port_ = boot_port;
  if (auto found = port.look_up(); !found) return tl::unexpected(found.error());
  const auto take = [](Expected<Descriptor> from, Descriptor& into) -> Expected<void> {
    if (!from) return tl::unexpected(from.error());
    into = std::move(*from);
    return {};
  };
  // DHCP clients send to 255.255.255.255, which a socket bound to one of our addresses would not hear.
  auto opened = take(port.udp(dhcp::kServerPort, true), port.dhcp_);
  if (opened) opened = take(port.udp(dhcp::kProxyPort, true), port.proxy_);
  if (opened) opened = take(port.udp(kTftpPort, false), port.tftp_);
  if (opened) opened = take(port.listener(http_port), port.http_);
  if (opened && port.interface_.ethernet) opened = port.open_link_sockets();
  if (!opened) return tl::unexpected(opened.error());
  return port;
}

Expected<void> NetworkPort::look_up() {
  const Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  port_.interface.copy(request.ifr_name, IFNAMSIZ - 1);
  interface_.index = static_cast<int>(::if_nametoindex(port_.interface.c_str()));
  if (interface_.index == 0 || ::ioctl(any.get(), SIOCGIFFLAGS, &request) != 0)
    return fail(ErrorCode::kBootServer, fmt::format("there is no network interface '{}'", port_.interface), port_.name,
                "`ip link` lists the interfaces of this machine");
  if ((request.ifr_flags & IFF_UP) == 0)
    return fail(ErrorCode::kBootServer, fmt::format("the interface '{}' is down", port_.interface), port_.name,
                fmt::format("ip link set {} up", port_.interface));
  if (::ioctl(any.get(), SIOCGIFHWADDR, &request) == 0) {
    interface_.ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
    std::memcpy(mac_.data(), request.ifr_hwaddr.sa_data, mac_.size());
  }
  if (::ioctl(any.get(), SIOCGIFMTU, &request) == 0) mtu_ = static_cast<std::size_t>(request.ifr_mtu);
  return {};
}

Expected<void> NetworkPort::open_link_sockets() {
  auto router = packet_socket(port_, interface_.index, ETH_P_IPV6, kSolicitationFilter);
  if (!router) return tl::unexpected(router.error());
  packet_mreq all_routers{}; // a NIC drops groups that nobody has joined
  all_routers.mr_ifindex = interface_.index;
  all_routers.mr_type = PACKET_MR_MULTICAST;
  all_routers.mr_alen = sizeof kAllRoutersMac;
  std::copy(std::begin(kAllRoutersMac), std::end(kAllRoutersMac), all_routers.mr_address);
  if (!set(router->get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, all_routers))
    return socket_error(port_, "the group of IPv6 routers");
  auto overheard = packet_socket(port_, interface_.index, ETH_P_IP, kClientPortFilter);
  if (!overheard) return tl::unexpected(overheard.error());
  router_ = std::move(*router);
  overheard_ = std::move(*overheard);
  return {};
}

Expected<Descriptor> NetworkPort::udp(std::uint16_t number, bool any_address) const {
  Descriptor fd(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open() || !bind_to_device(fd.get(), port_.interface) || !set(fd.get(), SOL_SOCKET, SO_BROADCAST, 1) ||
      !bind_socket(fd.get(), endpoint(any_address ? INADDR_ANY : port_.address, number))) {
    const int reason = errno;
    const std::string holder =
        reason == EADDRINUSE ? http::udp_port_holder(any_address ? INADDR_ANY : port_.address, number) : std::string();
    errno = reason;
    return socket_error(port_, fmt::format("UDP port {}", number), holder);
  }
  (void)set(fd.get(), SOL_SOCKET, SO_SNDBUF, kUdpBufferBytes); // a smaller one is slower, and no fault
  return fd;
}

Expected<Descriptor> NetworkPort::listener(std::uint16_t number) const {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open() || !bind_to_device(fd.get(), port_.interface) || !set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1) ||
      !bind_socket(fd.get(), endpoint(port_.address, number)) || ::listen(fd.get(), kListenBacklog) != 0) {
    const int reason = errno;
    const std::string holder = reason == EADDRINUSE ? http::tcp_port_holder(port_.address, number) : std::string();
    errno = reason;
    return socket_error(port_, fmt::format("TCP port {}", number), holder);
  }
  return fd;
}

Expected<Descriptor> NetworkPort::connect_to(Ipv4 address, std::uint16_t number) const {
  auto fd = udp(0, false);
  if (!fd) return fd;
  const sockaddr_in to = endpoint(address, number);
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return socket_error(port_, "a UDP socket");
  return fd;
}

bool NetworkPort::send(const dhcp::Outgoing& packet) const {
  if (packet.hardware && overheard_.open()) return send_to_mac(packet);
  // Without Ethernet there is no MAC to send to; a broadcast reaches whoever there is.
  sockaddr_in to = endpoint(packet.hardware ? INADDR_BROADCAST : packet.to, packet.to_port);
  iovec data{const_cast<std::byte*>(packet.bytes.data()), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in_pktinfo))> control{};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = IPPROTO_IP;
  head->cmsg_type = IP_PKTINFO;
  head->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
  in_pktinfo source{};
  source.ipi_ifindex = interface_.index;
  source.ipi_spec_dst.s_addr = htonl(port_.address);
  std::memcpy(CMSG_DATA(head), &source, sizeof source);
  const int socket = packet.from_port == dhcp::kProxyPort ? proxy_.get() : dhcp_.get();
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.bytes.size());
}

bool NetworkPort::send_to_mac(const dhcp::Outgoing& packet) const {
  const UdpEnds ends{port_.address, packet.to, packet.from_port, packet.to_port};
  return send_frame(overheard_.get(), interface_.index, ETH_P_IP, *packet.hardware, ipv4_udp_packet(ends, packet.bytes));
}

bool NetworkPort::advertise_router() const {
  return send_frame(router_.get(), interface_.index, ETH_P_IPV6, kAllNodesMac, router_advertisement(mac_));
}

std::optional<Datagram> receive_datagram(int socket, std::span<std::byte> buffer) {
  sockaddr_in from{};
  socklen_t from_bytes = sizeof from;
  const ssize_t got = ::recvfrom(socket, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes);
  if (got < 0) return std::nullopt;
  return Datagram{static_cast<std::size_t>(got), ntohl(from.sin_addr.s_addr), ntohs(from.sin_port)};
}

std::optional<Frame> receive_frame(int socket, std::span<std::byte> buffer) {
  sockaddr_ll from{};
  socklen_t from_bytes = sizeof from;
  const ssize_t got = ::recvfrom(socket, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes);
  if (got < 0) return std::nullopt;
  Frame frame{static_cast<std::size_t>(got), {}};
  std::copy_n(from.sll_addr, frame.from.size(), frame.from.begin());
  return frame;
}

} // namespace ductl::netboot
