// A network of this process's own: nothing but a loopback interface, on which every address and port is free, whatever else runs
// on this machine. Its children live in it as well.
#pragma once

namespace ductl::test {

// Before any thread is started. False where the kernel does not allow it (the process keeps the machine's network then).
bool enter_own_network();

} // namespace ductl::test
