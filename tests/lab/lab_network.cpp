#include "tests/lab/lab_network.hpp"

#include "tests/support/own_network.hpp"
#include "tests/support/program.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::lab {

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

} // namespace ductl::lab
