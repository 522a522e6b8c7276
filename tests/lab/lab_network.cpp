#include "tests/lab/lab_network.hpp"

#include "tests/support/own_network.hpp"
#include "tests/support/program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::lab {
namespace {

int raw_socket(const std::string& interface) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  const int yes = 1;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
  if (fd < 0 || ::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("packet socket on " + interface + ": " + std::strerror(errno));
  return fd;
}

bool carries_udp(const char* frame, ssize_t bytes) {
  return bytes > 34 && static_cast<unsigned char>(frame[12]) == 0x08 && frame[13] == 0 && frame[23] == 17;
}

} // namespace

std::string enter_lab() {
  for (const char* file : {"/usr/bin/qemu-system-x86_64", "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/lib/ipxe/qemu/pxe-virtio.rom"})
    if (!std::filesystem::exists(file)) return fmt::format("{} is missing: ./check installs it", file);
  static const bool entered = test::enter_own_network();
  return entered ? "" : "this user may not make a network namespace";
}

void ip(const std::string& words) {
  std::vector<std::string> argv{"/usr/sbin/ip"};
  std::istringstream in(words);
  for (std::string word; in >> word;) argv.push_back(word);
  const auto done = test::run_program(argv);
  if (done.status != 0) throw std::runtime_error("ip " + words + ": " + done.err);
}

void make_bridge(const std::string& name, const std::string& address, const std::string& tap_prefix, int taps) {
  ip(fmt::format("link add {} type bridge stp_state 0 forward_delay 0 mcast_snooping 0", name));
  ip(fmt::format("addr add {} dev {}", address, name));
  // A bridge whose taps have no VM has no link, and ductl is right to refuse it: a cable to nowhere gives it one.
  ip(fmt::format("link add {0}a type veth peer name {0}b", name));
  ip(fmt::format("link set {0}a master {0} up", name));
  ip(fmt::format("link set {0}b arp off up", name)); // or it would answer for the bridge's address, and swallow what follows
  for (int i = 1; i <= taps; ++i) {
    ip(fmt::format("tuntap add dev {}{} mode tap", tap_prefix, i));
    ip(fmt::format("link set {}{} master {} up", tap_prefix, i, name));
  }
  ip(fmt::format("link set {} up", name));
}

OtherMachine::OtherMachine(const std::string& bridge, const std::string& address) {
  int ready[2];
  if (::pipe(ready) != 0) throw std::runtime_error("pipe");
  holder_ = ::fork();
  if (holder_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char good = ::unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &good, 1);
    for (;;) ::pause();
  }
  char good = 'n';
  (void)!::read(ready[0], &good, 1);
  ::close(ready[0]);
  ::close(ready[1]);
  if (good != 'y') throw std::runtime_error("no second namespace");
  const std::string end = "o" + bridge;
  ip(fmt::format("link add {0}h type veth peer name {0}o", end));
  ip(fmt::format("link set {}h master {} up", end, bridge));
  ip(fmt::format("link set {}o netns {}", end, holder_));
  for (const std::string& words : {fmt::format("addr add {} dev {}o", address, end), fmt::format("link set {}o up", end)}) {
    std::vector<std::string> argv{"/usr/sbin/ip"};
    std::istringstream in(words);
    for (std::string word; in >> word;) argv.push_back(word);
    if (const auto done = test::run_program(inside(argv)); done.status != 0) throw std::runtime_error(done.err);
  }
}

OtherMachine::~OtherMachine() {
  ::kill(holder_, SIGKILL);
  ::waitpid(holder_, nullptr, 0);
}

std::vector<std::string> OtherMachine::inside(const std::vector<std::string>& argv) const {
  std::vector<std::string> words{"/usr/bin/nsenter", fmt::format("--net=/proc/{}/ns/net", holder_), "--"};
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

namespace {

// Frames that leave through it have their checksums written, as no card will do it behind a packet socket.
void write_checksums(const std::string& interface) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ethtool_value off{ETHTOOL_STXCSUM, 0};
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&off);
  if (::ioctl(fd, SIOCETHTOOL, &request) != 0) {
    const std::string why = std::strerror(errno);
    ::close(fd);
    throw std::runtime_error("checksums of " + interface + ": " + why);
  }
  ::close(fd);
}

} // namespace

LossyCable::LossyCable(const std::string& bridge, const std::string& vm_tap, int one_in) : one_in_(one_in) {
  ip(fmt::format("tuntap add dev {} mode tap", vm_tap));
  ip(fmt::format("link set {} up", vm_tap));
  ip("link add lossyh type veth peer name lossyv");
  ip(fmt::format("link set lossyh master {} up", bridge));
  ip("link set lossyv up");
  write_checksums("lossyh");
  vm_ = raw_socket(vm_tap);
  bridge_ = raw_socket("lossyv");
  thread_ = std::thread([this] {
    while (!ended_) {
      std::array<pollfd, 2> ends{pollfd{vm_, POLLIN, 0}, pollfd{bridge_, POLLIN, 0}};
      if (::poll(ends.data(), ends.size(), 200) <= 0) continue;
      carry(vm_, bridge_);
      carry(bridge_, vm_);
    }
  });
}

LossyCable::~LossyCable() {
  ended_ = true;
  thread_.join();
  ::close(vm_);
  ::close(bridge_);
}

void LossyCable::carry(int from, int to) {
  std::array<char, 65536> frame{};
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = ::recv(from, frame.data(), frame.size(), 0);
    if (got <= 0) return;
    random_ = random_ * 1664525u + 1013904223u;
    if (carries_udp(frame.data(), got) && (random_ >> 8) % static_cast<unsigned>(one_in_) == 0)
      ++lost_;
    else
      (void)::send(to, frame.data(), static_cast<std::size_t>(got), 0);
  }
}

} // namespace ductl::lab
