// What only process 1 does to a machine: mounts at its start, and its end.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>

namespace ductl::agent::init {

// /proc, /sys, /dev, /run, /tmp and, where the firmware keeps records of panics, /sys/fs/pstore. What is mounted already is fine.
[[nodiscard]] Expected<void> mount_file_systems();

// Children that the kernel hands to process 1 are reaped, Ctrl-Alt-Del becomes SIGINT.
void take_over();

void set_wall_clock(std::int64_t ms_since_1970);

[[noreturn]] void restart_machine();
[[noreturn]] void power_off_machine();

} // namespace ductl::agent::init
