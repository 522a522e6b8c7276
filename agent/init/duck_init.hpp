// Process 1 of a netbooted duck: from the kernel's hand-over to an address, and what keeps it on its feet afterwards.
//
// start() prepares the machine. boot() blocks until the card has its address (two minutes at most without an answer). keep()
// starts the thread that renews the lease, says hello, and looks at the machine's health. Whatever goes wrong for good ends in
// give_up(): it says so on the console and over UDP, waits, and starts the machine anew.
#pragma once

#include "agent/health/health_watch.hpp"
#include "agent/health/self_test.hpp"
#include "agent/membership.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ductl::agent::init {

// True when this process is the image's init: process 1, started by a kernel, which gives it no options.
[[nodiscard]] bool is_init(int argc, char** argv);

struct Booted {
  inventory::Mac mac{};
  std::string interface;
  AdoptionRule rule; // our address, and who may adopt
};

class DuckInit {
public:
  // `boot_id` stands in every announcement.
  [[nodiscard]] static std::unique_ptr<DuckInit> start(std::string boot_id);
  virtual ~DuckInit() = default;

  [[nodiscard]] virtual Expected<Booted> boot() = 0;
  [[nodiscard]] virtual health::Measured measured() = 0; // waits for the self test, which runs since start()
  [[nodiscard]] virtual const std::string& image() const = 0;
  // Until stop_keeping(). `on_trouble` is called once, on that thread, when the duck cannot go on. Both must outlive it.
  virtual void keep(health::HealthWatch& health, const Membership& membership, std::uint16_t control_port,
                    std::function<void(const Error&)> on_trouble) = 0;
  virtual void stop_keeping() = 0;
  virtual void feed_watchdog() = 0; // any thread; at least twice a minute

  [[noreturn]] virtual void give_up(const Error& error) = 0;
  [[noreturn]] virtual void end(bool power_off) = 0;
};

} // namespace ductl::agent::init
