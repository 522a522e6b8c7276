// The loop: look, plan, act, look again, until nothing is left to do. The same one behind `up`, `down` and temporary flocks.
#pragma once

#include "ductl/reconcile/planner.hpp"

#include <functional>

namespace ductl::reconcile {

// Eyes and hands on a flock. act() is called from several threads at once, for different ducks; the engine's actions come alone.
class FlockHands {
public:
  virtual ~FlockHands() = default;
  [[nodiscard]] virtual Observed observe(const Desired& desired) = 0;
  // Returns the bytes of slices that were sent. Success is not believed: the next observation decides.
  [[nodiscard]] virtual Expected<std::uint64_t> act(const Desired& desired, const Action& action) = 0;
};

struct ReconcileOptions {
  int passes_max = 4;                   // a flock that still asks for actions after so many passes does not settle
  int booting_max = 4, filling_max = 4; // ducks at once: started or stopped, sent slices
  std::function<bool()> interrupted = [] { return false; }; // asked between actions, from any thread
  // Asked once, before the first action of all; its error ends the loop with nothing done.
  std::function<Expected<void>(const Plan&, const Observed&)> check = [](const Plan&, const Observed&) {
    return Expected<void>();
  };
  std::function<void(const Plan&)> on_plan = [](const Plan&) {};      // before the pass that executes it
  std::function<void(const Action&)> on_begin = [](const Action&) {}; // from any thread, one at a time
  std::function<void(const Action&, const Expected<std::uint64_t>&)> on_end = [](const Action&, const Expected<std::uint64_t>&) {
  };
};

struct ReconcileReport {
  int actions = 0; // that succeeded
  std::uint64_t bytes_sent = 0;
  std::vector<Error> errors = {}; // empty = the flock is as desired
  Observed observed = {};         // the last look
  [[nodiscard]] bool converged() const { return errors.empty(); }
};

// A failed action ends the loop after its pass, so that the other ducks are still worked on; the engine is not started then.
// All agents that stop do so before any starts: an address may pass from one to the other. After an interruption no
// action begins, running ones finish or end with kCancelled themselves, and kCancelled is told once.
[[nodiscard]] ReconcileReport reconcile(FlockHands& hands, const Desired& desired, const ReconcileOptions& options);

} // namespace ductl::reconcile
