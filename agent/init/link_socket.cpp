#include "agent/init/link_socket.hpp"

#include "netboot/dhcp/options.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ductl::agent::init {
namespace {

constexpr std::size_t kPacketBytesMax = 2048;
constexpr netboot::Mac kEveryone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// On what follows the Ethernet header, so that the data plane's packets are not copied here.
sock_filter kClientPortFilter[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9), // protocol
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6), // fragment offset
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), // length of the IP header
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),  // destination port
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, netboot::dhcp::kClientPort, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

sockaddr_ll link_address(int index, const netboot::Mac& mac) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETHERTYPE_IP);
  address.sll_ifindex = index;
  address.sll_halen = 6;
  std::copy(mac.begin(), mac.end(), address.sll_addr);
  return address;
}

} // namespace

Expected<LinkSocket> LinkSocket::open(const std::string& interface) {
  LinkSocket out;
  out.index_ = static_cast<int>(::if_nametoindex(interface.c_str()));
  out.socket_ = netboot::Descriptor(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sock_fprog program{static_cast<unsigned short>(std::size(kClientPortFilter)), kClientPortFilter};
  const sockaddr_ll address = link_address(out.index_, kEveryone);
  if (out.index_ == 0 || !out.socket_.open() ||
      ::setsockopt(out.socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
      ::bind(out.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(ErrorCode::kBootServer, fmt::format("no packet socket on {}: {}", interface, std::strerror(errno)), interface,
                "the kernel needs CONFIG_PACKET and the agent CAP_NET_RAW");
  return out;
}

bool LinkSocket::send(const netboot::UdpEnds& ends, netboot::ByteView payload) {
  const netboot::Bytes packet = netboot::ipv4_udp_packet(ends, payload);
  const bool to_all = ends.to == 0xffffffff || !peer_;
  const sockaddr_ll address = link_address(index_, to_all ? kEveryone : *peer_);
  return ::sendto(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                  sizeof address) == static_cast<ssize_t>(packet.size());
}

std::optional<netboot::Bytes> LinkSocket::receive() {
  netboot::Bytes packet(kPacketBytesMax);
  for (;;) {
    sockaddr_ll from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(socket_.get(), packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return std::nullopt;
    if (from.sll_pkttype == PACKET_OUTGOING) continue;
    const auto datagram = netboot::read_ipv4_udp(netboot::ByteView(packet).first(static_cast<std::size_t>(got)));
    if (!datagram || datagram->ends.to_port != netboot::dhcp::kClientPort) continue;
    netboot::Mac mac{};
    std::copy_n(from.sll_addr, mac.size(), mac.begin());
    peer_ = mac;
    return netboot::Bytes(datagram->payload.begin(), datagram->payload.end());
  }
}

} // namespace ductl::agent::init
