#include "tests/support/own_network.hpp"

#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::test {
namespace {

// Who is not root needs a user namespace to make a network in; in it everybody keeps the number he has.
bool unshare_network() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user == 0) return unshare(CLONE_NEWNET) == 0;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << fmt::format("{0} {0} 1", user);
  std::ofstream("/proc/self/gid_map") << fmt::format("{0} {0} 1", group);
  return true;
}

bool raise_loopback() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
  const bool up = ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  close(socket);
  return up;
}

} // namespace

bool enter_own_network() { return unshare_network() && raise_loopback(); }

} // namespace ductl::test
