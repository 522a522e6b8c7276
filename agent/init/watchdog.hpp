// The machine's watchdog: unless it is fed for a minute, the machine starts anew. The hardware's where the kernel drives it, else
// the kernel's own (module softdog).
#pragma once

#include "netboot/descriptor.hpp"

namespace ductl::agent::init {

class Watchdog {
public:
  Watchdog() = default;   // none
  static Watchdog open(); // of /dev/watchdog; may be none
  [[nodiscard]] bool there() const { return file_.open(); }
  void feed() const; // any thread
private:
  netboot::Descriptor file_; // stays armed when it is closed: only the end of the machine ends it
};

} // namespace ductl::agent::init
