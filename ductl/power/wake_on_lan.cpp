#include "ductl/power/wake_on_lan.hpp"

#include "ductl/power/magic_packet.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::power {
namespace {

class Socket {
public:
  Socket(int family, int type, int protocol) : fd_(::socket(family, type | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return fd_; }

private:
  int fd_;
};

struct Interface {
  int index = 0;
  inventory::Mac mac{};
};

std::string place_of(const inventory::Port& port) { return fmt::format("{} ({})", port.name, port.interface); }

// kPower where nothing that is sent there would arrive.
Expected<Interface> look_up(const inventory::Port& port) {
  const Socket any(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  port.interface.copy(request.ifr_name, IFNAMSIZ - 1);
  Interface found{.index = static_cast<int>(::if_nametoindex(port.interface.c_str()))};
  if (found.index == 0 || ::ioctl(any.get(), SIOCGIFFLAGS, &request) != 0)
    return fail(ErrorCode::kPower, fmt::format("there is no network interface '{}'", port.interface), place_of(port),
                "`ip -br link` lists the interfaces of this machine; correct port.interface in the inventory");
  if ((request.ifr_flags & IFF_UP) == 0)
    return fail(ErrorCode::kPower, fmt::format("the interface '{}' is down", port.interface), place_of(port),
                fmt::format("ip link set {} up", port.interface));
  if ((request.ifr_flags & IFF_RUNNING) == 0)
    return fail(ErrorCode::kPower,
                fmt::format("the interface '{}' has no link: no duck of this port can be reached", port.interface),
                place_of(port), "look at the cable between this machine and the switch, and whether the switch has power");
  if (::ioctl(any.get(), SIOCGIFHWADDR, &request) == 0)
    std::memcpy(found.mac.data(), request.ifr_hwaddr.sa_data, found.mac.size());
  return found;
}

tl::unexpected<Error> not_sent(const inventory::Duck& duck, const inventory::Port& port, const char* form) {
  const int reason = errno;
  const bool denied = reason == EPERM || reason == EACCES;
  return fail(ErrorCode::kPower,
              fmt::format("the magic packet of duck {} ({}) was not sent: {}", duck.name, form, std::strerror(reason)),
              place_of(port),
              denied ? "run it as root, or give ductl CAP_NET_RAW: `setcap cap_net_raw,cap_net_bind_service+ep`"
                     : "check the interface: `ip addr`");
}

Expected<void> send_frame(const inventory::Duck& duck, const inventory::Port& port, const Interface& interface) {
  const Socket socket(AF_PACKET, SOCK_RAW, 0); // 0: hears nothing
  if (socket.get() < 0) return not_sent(duck, port, "Ethernet");
  const std::vector<std::uint8_t> frame = magic_frame(*duck.mac, interface.mac);
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(kWakeEtherType);
  to.sll_ifindex = interface.index;
  to.sll_halen = ETH_ALEN;
  std::fill_n(to.sll_addr, ETH_ALEN, 0xff);
  if (::sendto(socket.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0)
    return not_sent(duck, port, "Ethernet");
  return {};
}

Expected<void> send_datagram(const inventory::Duck& duck, const inventory::Port& port) {
  const Socket socket(AF_INET, SOCK_DGRAM, 0);
  const int yes = 1;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(kWakeUdpPort);
  to.sin_addr.s_addr = htonl(directed_broadcast(port));
  const std::vector<std::uint8_t> pattern = magic_pattern(*duck.mac);
  // Bound to the interface: a route elsewhere, of another network of the same number, must not take it.
  const bool ready = socket.get() >= 0 && ::setsockopt(socket.get(), SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes) == 0 &&
                     ::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, port.interface.c_str(),
                                  static_cast<socklen_t>(port.interface.size() + 1)) == 0;
  if (!ready || ::sendto(socket.get(), pattern.data(), pattern.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0)
    return not_sent(duck, port, "UDP");
  return {};
}

class WakeOnLanDriver final : public PowerDriver {
public:
  explicit WakeOnLanDriver(std::vector<inventory::Port> ports) : ports_(std::move(ports)) {}

  Expected<void> check(const inventory::Duck& duck) override {
    if (auto found = look_up(port_of(duck)); !found) return tl::unexpected(found.error());
    return {};
  }

  Expected<void> on(const inventory::Duck& duck) override {
    const inventory::Port& port = port_of(duck);
    const auto interface = look_up(port);
    if (!interface) return tl::unexpected(interface.error());
    if (auto sent = send_frame(duck, port, *interface); !sent) return sent;
    return send_datagram(duck, port);
  }

  Expected<void> off(const inventory::Duck& duck) override {
    return fail(ErrorCode::kPower, "wake-on-LAN switches nothing off", "duck " + duck.name,
                "a duck that answers is switched off by `ductl down`; another one by its button");
  }

  PowerState state(const inventory::Duck&) override { return {}; }

private:
  [[nodiscard]] const inventory::Port& port_of(const inventory::Duck& duck) const {
    return ports_[static_cast<std::size_t>(duck.port_index)];
  }

  std::vector<inventory::Port> ports_;
};

} // namespace

std::unique_ptr<PowerDriver> make_wake_on_lan_driver(std::vector<inventory::Port> ports) {
  return std::make_unique<WakeOnLanDriver>(std::move(ports));
}

} // namespace ductl::power
