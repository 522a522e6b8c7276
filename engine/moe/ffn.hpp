// The engine's view of FFNs: hidden states and routing in, weighted sums out. FlockFfn sends them to the ducks in rounds,
// HostFfn computes them in process from the checkpoint's own weights.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ductl::engine {

struct ExpertChoice {
  std::uint16_t expert = 0;
  float weight = 0;
};

// One layer's FFN for a batch of tokens of one lane.
struct FfnRequest {
  int layer = 0, lane = 0;
  int tokens = 0;                                         // 1..tokens_max()
  std::span<const float> x;                               // [tokens * hidden], normed hidden states
  std::span<const std::span<const ExpertChoice>> experts; // [tokens], each in router order
};

// Where a round's time went; summed over rounds by whoever wants sums.
struct RoundTimes {
  std::int64_t send_ns = 0, wait_ns = 0, compute_ns = 0, fetch_ns = 0, reduce_ns = 0;
  RoundTimes& operator+=(const RoundTimes& more) {
    send_ns += more.send_ns;
    wait_ns += more.wait_ns;
    compute_ns += more.compute_ns;
    fetch_ns += more.fetch_ns;
    reduce_ns += more.reduce_ns;
    return *this;
  }
};

class Ffn {
public:
  virtual ~Ffn() = default;
  [[nodiscard]] virtual int tokens_max() const = 0;
  // Starts; one request per lane may be in flight. x and experts must stay valid until finish().
  [[nodiscard]] virtual Expected<void> start(const FfnRequest& request) = 0;
  // Waits for the lane's request and writes y[tokens * hidden]. kDuckDied names duck and layer.
  [[nodiscard]] virtual Expected<RoundTimes> finish(int lane, std::span<float> y) = 0;
};

} // namespace ductl::engine
