#include "engine/moe/peer_clock.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace ductl::engine {
namespace {
// Shares of dead_after. The floor is well above the jitter of a machine of that kind, and 32 questions fit into dead_after
// at the slowest: at 10 % loss each way the chance that all of them go astray is nil.
constexpr int kFloorShare = 250, kCeilingShare = 8, kBackoffShare = 32;
constexpr int kFirstGuessFloors = 5;
constexpr Duration kFloorMin = std::chrono::microseconds(100);
} // namespace

PeerClock::PeerClock(Duration dead_after)
    : floor_(std::max(dead_after / kFloorShare, kFloorMin)),
      ceiling_(std::max(dead_after / kCeilingShare, floor_)),
      backoff_max_(std::max(dead_after / kBackoffShare, floor_)) {}

void PeerClock::begin(int tokens, int ducks, Instant now) {
  assert(tokens >= 1);
  bucket_ = std::min<std::size_t>(std::bit_width(static_cast<unsigned>(tokens)) - 1u, history_.size() - 1);
  start_ = now;
  half_ = Duration::zero();
  ducks_ = ducks;
  arrived_ = 0;
}

void PeerClock::arrived(Instant now) {
  if (++arrived_ == (ducks_ + 1) / 2) half_ = std::max<Duration>(now - start_, Duration(1));
}

void PeerClock::finished(Instant now, bool clean) {
  History& h = history_[bucket_];
  const Duration took = now - start_;
  if (!h.any) {
    h = {.mean = took, .deviation = took / 2, .any = true};
    return;
  }
  if (!clean && took > h.mean) return; // it tells of a loss, not of the ducks' speed
  const Duration off = took > h.mean ? took - h.mean : h.mean - took;
  h.deviation += (off - h.deviation) / 4;
  h.mean += (took - h.mean) / 8;
}

Duration PeerClock::patience() const {
  if (peers_tell()) return std::clamp(2 * half_, floor_, ceiling_);
  const History& h = history_[bucket_];
  return std::clamp(h.any ? h.mean + 4 * h.deviation : kFirstGuessFloors * floor_, floor_, ceiling_);
}

} // namespace ductl::engine
