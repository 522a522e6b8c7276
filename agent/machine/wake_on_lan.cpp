#include "agent/machine/wake_on_lan.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::agent {
namespace {

bool ethtool(const std::string& interface, ethtool_wolinfo& info) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  const bool done = ::ioctl(socket, SIOCETHTOOL, &request) == 0;
  ::close(socket);
  return done;
}

} // namespace

std::optional<WakeOnLan> wake_on_lan(const std::string& interface) {
  ethtool_wolinfo info{};
  info.cmd = ETHTOOL_GWOL;
  if (!ethtool(interface, info)) return std::nullopt;
  return WakeOnLan{(info.supported & WAKE_MAGIC) != 0, (info.wolopts & WAKE_MAGIC) != 0};
}

std::optional<WakeOnLan> arm_wake_on_lan(const std::string& interface) {
  const auto before = wake_on_lan(interface);
  if (!before || !before->supported || before->armed) return before;
  ethtool_wolinfo info{};
  info.cmd = ETHTOOL_SWOL;
  info.wolopts = WAKE_MAGIC;
  (void)ethtool(interface, info); // what counts is what is read back
  return wake_on_lan(interface);
}

} // namespace ductl::agent
