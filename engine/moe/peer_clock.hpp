// How long to wait for a duck before asking it: the other ducks are the clock. Pure.
//
// All ducks of a round do the same amount of work, so once half of them have answered the others should follow within the
// same time again. Before that, earlier rounds with as many tokens tell; before any, a guess. Everything is kept between a
// floor and a ceiling taken from `dead_after`, the flock's own time scale (50 ms on wires, seconds where 32 ducks share two
// cores): so a slow machine is not asked every few microseconds, and every duck is asked many times before it is called dead.
#pragma once

#include "inventory/clock.hpp"

#include <array>

namespace ductl::engine {

class PeerClock {
public:
  explicit PeerClock(Duration dead_after);
  void begin(int tokens, int ducks, Instant now);
  void arrived(Instant now);              // one more duck has answered in full
  void finished(Instant now, bool clean); // the round is over; clean = nobody had to be asked
  // Silence after which a duck is asked for the first time.
  [[nodiscard]] Duration patience() const;
  [[nodiscard]] bool peers_tell() const { return half_ > Duration::zero(); } // half of them have answered
  [[nodiscard]] Duration floor() const { return floor_; }
  [[nodiscard]] Duration backoff_max() const { return backoff_max_; } // longest time between two questions

private:
  struct History { // of whole rounds, as TCP keeps round trips (RFC 6298)
    Duration mean{}, deviation{};
    bool any = false;
  };

  Duration floor_, ceiling_, backoff_max_;
  std::array<History, 8> history_; // by log2(tokens)
  std::size_t bucket_ = 0;
  Instant start_{};
  Duration half_{};
  int ducks_ = 0, arrived_ = 0;
};

} // namespace ductl::engine
