// The walks of `ductl up` and `ductl down`, for any flock of this machine: lock, model, fit, placement, reconcile.
#pragma once

#include "ductl/reconcile/local_flock.hpp"
#include "ductl/view/progress.hpp"

namespace ductl::reconcile {

struct WalkOptions {
  Goal goal = Goal::Serving;                                // of raise_flock
  std::function<bool()> interrupted = [] { return false; }; // asked often, from any thread: true ends what takes long
  std::function<void(const view::StageProgress&)> on_stage = [](const view::StageProgress&) {}; // one call at a time, any thread
};

// Nothing is sent before the model has been checked and found to fit. Errors say what stopped it; what was done stays done, and
// the next call goes on from there. On success a flock with Goal::Filled has a serving.json for `duck-engine model --state`.
[[nodiscard]] ReconcileReport raise_flock(LocalFlock& flock, const WalkOptions& options);

// Engine first, then the ducks; then run files, serving.json and the lock file go. Works without the model.
[[nodiscard]] ReconcileReport lower_flock(LocalFlock& flock, const WalkOptions& options);

// What raise_flock() would do, without doing it (the manifest may be made and cached).
[[nodiscard]] Expected<Plan> plan_flock(LocalFlock& flock, const WalkOptions& options);

} // namespace ductl::reconcile
