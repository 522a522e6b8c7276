// FlockFfn: one round per request, over every duck of the flock (docs/wire.md). The deciding part is HostRound (round.hpp,
// sans-I/O); this joins it to transports. All calls on one thread.
#pragma once

#include "agent/transport/transport.hpp"
#include "engine/moe/ffn.hpp"
#include "inventory/clock.hpp"
#include "inventory/inventory.hpp"
#include "weights/manifest.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ductl::engine {

struct FlockDuck {
  std::string name;
  int port_index = 0;
  agent::Endpoint data;
  std::string log = {}; // where its log is, for the error of its death; may be empty
};

struct FlockFfnOptions {
  std::vector<FlockDuck> ducks; // index = number on the wire
  std::uint64_t session_tag = 0;
  std::uint32_t epoch = 0;
  bool bf16_hidden = false, compact_reply = false;
  std::chrono::milliseconds dead_after{5000};
  Instant (*clock)() = &Clock::now; // a simulated network brings its own
};

struct FlockStats {
  std::uint64_t rounds = 0, repeats = 0 /* fixed-point rungs climbed */, nacks_sent = 0, nacks_received = 0, soft_timeouts = 0,
                frames_in = 0, frames_out = 0, frames_corrupt = 0, frames_foreign = 0, frames_duplicate = 0, frames_malformed = 0;
}; // nacks_sent counts questions asked by the clock (soft_timeouts) as well; frames_duplicate also those of rounds that are over

class FlockFfn : public Ffn {
public:
  [[nodiscard]] virtual FlockStats stats() const = 0;
  [[nodiscard]] virtual bool compact_reply() const = 0; // then sums have the same bits for one placement only
};

// One transport per inventory port, in order; `exponent` is the manifest's. Throws away nothing of its own when it fails.
[[nodiscard]] std::unique_ptr<FlockFfn> make_flock_ffn(const FlockFfnOptions& options, const weights::Manifest& manifest,
                                                       const weights::ModelConfig& config,
                                                       std::vector<std::unique_ptr<agent::Transport>> transports);

} // namespace ductl::engine
