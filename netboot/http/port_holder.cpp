#include "netboot/http/port_holder.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace ductl::http {

namespace {

constexpr unsigned kListen = 0x0a; // TCP_LISTEN of /proc/net/tcp
constexpr unsigned kNoPeer = 0x07; // of /proc/net/udp: bound, and connected to nobody

// Inode of the socket that has the port and is in `wanted_state`, 0 if none. One on 0.0.0.0 holds every address.
unsigned long holding_inode(const char* file, unsigned wanted_state, std::uint32_t address, std::uint16_t port) {
  std::ifstream table(file);
  std::string line;
  std::getline(table, line); // titles
  while (std::getline(table, line)) {
    unsigned local_address = 0, local_port = 0, state = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), " %*u: %8X:%4X %*8X:%*4X %2X %*X:%*X %*X:%*X %*X %*u %*u %lu", &local_address, &local_port,
                    &state, &inode) != 4)
      continue;
    const std::uint32_t held = ntohl(local_address);
    if (state == wanted_state && local_port == port && (held == address || held == 0 || address == 0)) return inode;
  }
  return 0;
}

bool holds_socket(const std::filesystem::path& process, const std::string& link) {
  std::error_code ec;
  for (std::filesystem::directory_iterator it(process / "fd", ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code unreadable;
    if (std::filesystem::read_symlink(it->path(), unreadable) == link) return true;
  }
  return false;
}

std::string holder_of(unsigned long inode) {
  if (inode == 0) return {};
  const std::string link = fmt::format("socket:[{}]", inode);
  std::error_code ec;
  for (std::filesystem::directory_iterator it("/proc", ec), end; !ec && it != end; it.increment(ec)) {
    const std::string pid = it->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !holds_socket(it->path(), link)) continue;
    std::string name;
    std::ifstream comm(it->path() / "comm");
    std::getline(comm, name);
    return fmt::format("PID {} ({})", pid, name);
  }
  return {};
}

} // namespace

std::string tcp_port_holder(std::uint32_t address, std::uint16_t port) {
  return holder_of(holding_inode("/proc/net/tcp", kListen, address, port));
}

std::string udp_port_holder(std::uint32_t address, std::uint16_t port) {
  return holder_of(holding_inode("/proc/net/udp", kNoPeer, address, port));
}

} // namespace ductl::http
