#include "agent/init/watchdog.hpp"

#include <fcntl.h>
#include <linux/watchdog.h>
#include <sys/ioctl.h>

namespace ductl::agent::init {

Watchdog Watchdog::open() {
  Watchdog out;
  out.file_ = netboot::Descriptor(::open("/dev/watchdog", O_WRONLY | O_CLOEXEC));
  int seconds = 60;
  if (out.there()) (void)::ioctl(out.file_.get(), WDIOC_SETTIMEOUT, &seconds);
  return out;
}

void Watchdog::feed() const {
  if (there()) (void)::ioctl(file_.get(), WDIOC_KEEPALIVE, 0);
}

} // namespace ductl::agent::init
