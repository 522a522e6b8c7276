// A flock being read: the values, and where each stands in the file, for checks that look at several of them.
#pragma once

#include "inventory/fault_log.hpp"

namespace ductl::inventory {

struct PortMarks {
  Mark name, interface, address, fanout;
};

struct DuckMarks {
  Mark name, address, mac; // of a range: the range's value
  bool port_known = false; // Duck::port_index means something
  bool address_known = false;
};

struct Draft {
  Flock flock;
  std::vector<PortMarks> port_marks; // as many as flock.ports
  std::vector<DuckMarks> duck_marks; // as many as flock.ducks
  Mark flock_mark, power_mark, netboot_mark;
};

// Names, addresses and MACs given twice; addresses outside their subnet; what the power driver and netboot need.
void check_flock(const Draft& draft, FaultLog& faults);

// [a-z0-9-]{1,63}, as a host name's label.
[[nodiscard]] bool is_label(std::string_view text);

} // namespace ductl::inventory
