// A flock inside the test: N ducks as threads, each with its own store, socket and expert server, filled from a checkpoint.
// Everything between the engine's FFN and the ducks' kernels is the product's own code over real UDP on loopback; only the
// control plane and the processes are left out.
#pragma once

#include "agent/thread_plan.hpp"
#include "engine/moe/flock_ffn.hpp"
#include "weights/checkpoint.hpp"
#include "weights/manifest.hpp"

#include <memory>

namespace ductl::test {

struct InProcessFlockOptions {
  int ducks = 1;
  bool bf16_hidden = false, compact_reply = false;
  const char* format = "auto";    // of the slices, as an inventory says it
  agent::ThreadPlan threads = {}; // of each duck
};

class InProcessFlock {
public:
  // Fails the running test (throws std::runtime_error) when the flock cannot be made.
  InProcessFlock(const weights::Checkpoint& checkpoint, const InProcessFlockOptions& options);
  ~InProcessFlock(); // joins every thread
  [[nodiscard]] engine::FlockFfn& ffn();
  [[nodiscard]] const weights::Manifest& manifest() const;
  void kill(int duck); // stops answering, as a dead duck does

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace ductl::test
