// When which duck is sent its magic packets. No I/O, no clock, one thread at a time.
//
// A packet can be lost, and a card that has just lost its link misses the first ones: so each duck gets a burst of a few, and
// further bursts, ever more rarely, until somebody has heard of it or gives up. First bursts of one port are spread, or
// thirty-two power supplies start in the same instant. How many boot at once is the caller's: it adds no more ducks than that.
#pragma once

#include "inventory/clock.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace ductl::power {

struct WakeRules {
  int burst = 3;                                         // packets (of both forms)
  std::chrono::milliseconds packet_gap{100};             // within a burst
  std::chrono::milliseconds duck_gap{250};               // between the first bursts of two ducks of one port
  std::chrono::seconds repeat_first{10}, repeat_max{30}; // between the bursts of one duck, doubling
};

class WakeSchedule {
public:
  explicit WakeSchedule(WakeRules rules = {}) : rules_(rules) {}

  void want(std::size_t duck, int port, Instant now); // wanting twice changes nothing
  void done(std::size_t duck);                        // it was heard of, or nobody waits for it any more
  // The ducks that are to be sent a packet now; each is taken as sent.
  [[nodiscard]] std::vector<std::size_t> due(Instant now);
  // When due() has something next; empty = nobody is wanted.
  [[nodiscard]] std::optional<Instant> deadline() const;

private:
  struct Wanted {
    Instant next{};
    int left_in_burst = 0;
    std::chrono::milliseconds repeat{};
  };
  WakeRules rules_;
  std::map<std::size_t, Wanted> wanted_;
  std::map<int, Instant> port_free_; // when the next first burst may begin there
};

} // namespace ductl::power
