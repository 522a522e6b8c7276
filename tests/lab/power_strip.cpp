// The power strip of the emulated ducks: hears magic packets on the bridges of its network, and starts the VM that one is for.
//
//   power-strip FOLDER DUCK...      DUCK as parse_virtual_duck() takes it; FOLDER gets a folder for each duck
//
// A line of JSON on stdout for everything that happens: {"what": "magic"|"on"|"off"|"unknown"|"wrong-bridge"|"failed", "mac",
// "bridge"}. Ends with SIGTERM or SIGINT, and so do its VMs. I/O.
#include "tests/lab/virtual_duck.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <map>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace ductl::lab;
using ductl::inventory::Mac;

volatile std::sig_atomic_t ended = 0;

void tell(const char* what, const Mac& mac, const std::string& bridge) {
  fmt::print("{{\"what\": \"{}\", \"mac\": \"{}\", \"bridge\": \"{}\"}}\n", what, ductl::inventory::to_string(mac), bridge);
  std::fflush(stdout);
}

int listen_on(const std::string& bridge) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(bridge.c_str()));
  if (fd < 0 || address.sll_ifindex == 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return -1;
  return fd;
}

class PowerStrip {
public:
  PowerStrip(std::vector<VirtualDuck> ducks, std::filesystem::path folder)
      : ducks_(std::move(ducks)), folder_(std::move(folder)) {}

  bool open() {
    std::set<std::string> bridges;
    for (const VirtualDuck& duck : ducks_) bridges.insert(duck.bridge);
    for (const std::string& bridge : bridges) {
      bridges_.push_back(bridge);
      sockets_.push_back({listen_on(bridge), POLLIN, 0});
      if (sockets_.back().fd < 0) return std::perror(("power-strip: " + bridge).c_str()), false;
    }
    return true;
  }

  void run() {
    std::puts("{\"event\": \"listening\"}");
    std::fflush(stdout);
    while (ended == 0) {
      (void)::poll(sockets_.data(), sockets_.size(), 200);
      for (std::size_t i = 0; i < sockets_.size(); ++i) hear(sockets_[i].fd, bridges_[i]);
      bury();
    }
    for (const auto& [mac, pid] : running_) ::kill(pid, SIGKILL);
    for (const auto& [mac, pid] : running_) ::waitpid(pid, nullptr, 0);
  }

private:
  void hear(int fd, const std::string& bridge) {
    std::array<char, 2048> buffer{};
    for (;;) {
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      if (const auto mac = woken_by({buffer.data(), static_cast<std::size_t>(got)})) press(*mac, bridge);
    }
  }

  void press(const Mac& mac, const std::string& bridge) {
    const auto duck = std::find_if(ducks_.begin(), ducks_.end(), [&](const VirtualDuck& d) { return d.mac == mac; });
    if (duck == ducks_.end()) return tell("unknown", mac, bridge);
    if (duck->bridge != bridge) return tell("wrong-bridge", mac, bridge);
    tell("magic", mac, bridge);
    if (duck->mute || running_.contains(mac)) return;
    const auto pid = start(*duck);
    if (pid < 0) return tell("failed", mac, bridge);
    running_[mac] = pid;
    tell("on", mac, bridge);
  }

  pid_t start(const VirtualDuck& duck) const {
    std::string name = ductl::inventory::to_string(duck.mac);
    std::replace(name.begin(), name.end(), ':', '-');
    const std::filesystem::path folder = folder_ / name;
    std::filesystem::create_directories(folder);
    if (duck.firmware != Firmware::Bios)
      std::filesystem::copy_file("/usr/share/OVMF/OVMF_VARS_4M.fd", folder / "variables.fd",
                                 std::filesystem::copy_options::skip_existing);
    const std::vector<std::string> words = qemu_arguments(duck, folder);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = ::open((folder / "qemu.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(log, 1);
    ::dup2(log, 2);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  // VMs that switched themselves off, or that QEMU did not start; their qemu.log says why.
  void bury() {
    for (auto it = running_.begin(); it != running_.end();) {
      int status = 0;
      if (::waitpid(it->second, &status, WNOHANG) != it->second) {
        ++it;
        continue;
      }
      tell(status == 0 ? "off" : "failed", it->first, "");
      it = running_.erase(it);
    }
  }

  std::vector<VirtualDuck> ducks_;
  std::filesystem::path folder_;
  std::vector<std::string> bridges_;
  std::vector<pollfd> sockets_;
  std::map<Mac, pid_t> running_;
};

} // namespace

int main(int argc, char** argv) {
  std::vector<VirtualDuck> ducks;
  for (int i = 2; i < argc; ++i) {
    const auto duck = parse_virtual_duck(argv[i]);
    if (!duck) return fmt::print(stderr, "power-strip: '{}' describes no duck\n", argv[i]), 64;
    ducks.push_back(*duck);
  }
  if (ducks.empty()) return fmt::print(stderr, "usage: power-strip FOLDER DUCK...\n"), 64;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) std::signal(number, [](int) { ended = 1; });
  PowerStrip strip(std::move(ducks), argv[1]);
  if (!strip.open()) return 1;
  strip.run();
}
