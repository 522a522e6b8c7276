// The lab's wires, in this process's own network namespace: bridges that are ports of the host, taps for the virtual ducks, and
// a second namespace for somebody else's DHCP server.
#pragma once

#include "inventory/inventory.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace ductl::lab {

// "" or why there is no lab here: QEMU, OVMF, iPXE's ROMs or the right to a namespace is missing. Enters the namespace, once.
[[nodiscard]] std::string enter_lab();

// `ip` with these words. Throws std::runtime_error.
void ip(const std::string& words);

// A bridge with the host's address, that has a link even while no VM runs, and taps t1.. named PREFIX1, PREFIX2, ...
void make_bridge(const std::string& name, const std::string& address, const std::string& tap_prefix, int taps);

// A namespace with one cable to a bridge. Its processes are the caller's to start, by nsenter.
class OtherMachine {
public:
  OtherMachine(const std::string& bridge, const std::string& address);
  ~OtherMachine();
  OtherMachine(const OtherMachine&) = delete;
  OtherMachine& operator=(const OtherMachine&) = delete;
  [[nodiscard]] std::vector<std::string> inside(const std::vector<std::string>& argv) const;

private:
  pid_t holder_ = -1;
};

} // namespace ductl::lab
