#include "agent/init/route_netlink.hpp"

#include "netboot/descriptor.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace ductl::agent::init {
namespace {

struct Request {
  nlmsghdr head{};
  union {
    ifinfomsg link;
    ifaddrmsg address;
  } body{};
  char attributes[64]{};

  template <class Body> void begin(std::uint16_t type, std::uint16_t flags, const Body& from) {
    std::memcpy(&body, &from, sizeof from);
    head.nlmsg_len = NLMSG_LENGTH(sizeof from);
    head.nlmsg_type = type;
    head.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  }
  void add(std::uint16_t type, std::uint32_t value) {
    rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(sizeof value)), type};
    char* at = reinterpret_cast<char*>(this) + NLMSG_ALIGN(head.nlmsg_len);
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), &value, sizeof value);
    head.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(head.nlmsg_len) + RTA_ALIGN(attribute.rta_len));
  }
};

// 0, or the errno that the kernel answered.
int exchange(const Request& request) {
  const netboot::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (!socket.open() ||
      ::sendto(socket.get(), &request, request.head.nlmsg_len, 0, reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0)
    return errno;
  alignas(nlmsghdr) char answer[1024];
  const ssize_t got = ::recv(socket.get(), answer, sizeof answer, 0);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) return EIO;
  nlmsghdr head{};
  nlmsgerr error{};
  std::memcpy(&head, answer, sizeof head);
  std::memcpy(&error, answer + NLMSG_HDRLEN, sizeof error);
  return head.nlmsg_type == NLMSG_ERROR ? -error.error : EIO;
}

Expected<void> done(int error, const std::string& interface, const std::string& what) {
  if (error == 0) return {};
  return fail(ErrorCode::kBootServer, fmt::format("{}: {}", what, std::strerror(error)), interface);
}

} // namespace

Expected<void> raise_link(const std::string& interface) {
  ifinfomsg link{};
  link.ifi_family = AF_UNSPEC;
  link.ifi_index = static_cast<int>(::if_nametoindex(interface.c_str()));
  link.ifi_flags = link.ifi_change = IFF_UP;
  Request request;
  request.begin(RTM_NEWLINK, 0, link);
  return done(link.ifi_index == 0 ? ENODEV : exchange(request), interface, "the card cannot be switched on");
}

Expected<void> set_address(const std::string& interface, inventory::Ipv4 address, inventory::Ipv4 netmask) {
  ifaddrmsg to{};
  to.ifa_family = AF_INET;
  to.ifa_prefixlen = static_cast<std::uint8_t>(std::popcount(netmask));
  to.ifa_index = ::if_nametoindex(interface.c_str());
  Request request;
  request.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, to);
  request.add(IFA_LOCAL, htonl(address));
  request.add(IFA_ADDRESS, htonl(address));
  request.add(IFA_BROADCAST, htonl(address | ~netmask));
  return done(to.ifa_index == 0 ? ENODEV : exchange(request), interface,
              fmt::format("the address {} cannot be set", inventory::to_string(address)));
}

} // namespace ductl::agent::init
