// What a thread that reads from the network may do: nothing special.
#pragma once

#include "inventory/error.hpp"

namespace ductl::netboot {

// Gives up every capability of the calling thread, and every way to get one back (no_new_privs), for good. Capabilities are a
// thread's own: the other threads of the process keep theirs. Sockets that are open stay as useful as they were.
[[nodiscard]] Expected<void> drop_privileges();

} // namespace ductl::netboot
