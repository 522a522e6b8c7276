#include "ductl/reconcile/reconciler.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <mutex>
#include <semaphore>
#include <thread>

namespace ductl::reconcile {
namespace {

using Turns = std::counting_semaphore<>;

constexpr std::size_t kThreadsMax = 64; // a thread a duck: most of them wait for their turn, and dark ducks hold up no live one

class Pass {
public:
  Pass(FlockHands& hands, const Desired& desired, const ReconcileOptions& options, ReconcileReport& report)
      : hands_(hands), desired_(desired), options_(options), report_(report) {}

  void run(const std::vector<Action>& actions) {
    std::vector<std::vector<Action>> stops, by_duck;
    std::optional<Action> stop, start;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::StopEngine) {
        stop = action;
      } else if (action.kind == ActionKind::StartEngine) {
        start = action;
      } else if (action.kind == ActionKind::RestartEngine) {
        stop = Action{.kind = ActionKind::StopEngine, .reason = action.reason};
        start = action;
      } else if (action.kind == ActionKind::StopAgent || action.kind == ActionKind::PowerOff) {
        stops.push_back({action});
      } else if (!by_duck.empty() && by_duck.back().front().duck == action.duck) {
        by_duck.back().push_back(action);
      } else {
        by_duck.push_back({action});
      }
    }
    if (stop && !act(*stop, !start)) return;
    run_ducks(stops);
    if (!report_.errors.empty()) return; // what was to stop may sit where another was to start
    run_ducks(by_duck);
    if (start && report_.errors.empty()) act(*start, true);
  }

private:
  void run_ducks(const std::vector<std::vector<Action>>& by_duck) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < by_duck.size(); i = next++) {
        for (const Action& action : by_duck[i]) {
          if (!act(action, true)) break; // the rest of this duck's actions stand on it
        }
      }
    };
    std::vector<std::jthread> threads;
    const std::size_t count = std::min(by_duck.size(), kThreadsMax);
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }

  // Booting and filling have limits of their own: a thread waits here for its turn.
  bool act(const Action& action, bool counts) {
    const bool boots = action.kind == ActionKind::StartAgent || action.kind == ActionKind::RestartAgent ||
                       action.kind == ActionKind::Wake || action.kind == ActionKind::Reboot;
    const bool ends = action.kind == ActionKind::StopAgent || action.kind == ActionKind::PowerOff;
    Turns& turns = boots || ends ? booting_ : filling_; // a duck that is up does not wait for those that are not
    turns.acquire();
    const bool done = act_now(action, counts);
    turns.release();
    return done;
  }

  bool act_now(const Action& action, bool counts) {
    if (options_.interrupted()) {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(interrupted_, true)) {
        report_.errors.push_back(
            Error{ErrorCode::kCancelled, "interrupted", {}, "the same command goes on where this one stopped"});
      }
      return false;
    }
    {
      const std::lock_guard lock(mutex_);
      options_.on_begin(action);
    }
    const Expected<std::uint64_t> result = hands_.act(desired_, action);
    const std::lock_guard lock(mutex_);
    options_.on_end(action, result);
    if (!result) {
      const bool cancelled = result.error().code == ErrorCode::kCancelled;
      if (!cancelled || !std::exchange(interrupted_, true)) report_.errors.push_back(result.error()); // told once
      return false;
    }
    report_.actions += counts ? 1 : 0; // the stop of a restart is half of one action
    report_.bytes_sent += *result;
    return true;
  }

  FlockHands& hands_;
  const Desired& desired_;
  const ReconcileOptions& options_;
  ReconcileReport& report_;
  Turns booting_{std::max(1, options_.booting_max)}, filling_{std::max(1, options_.filling_max)};
  std::mutex mutex_; // report_, the callbacks
  bool interrupted_ = false;
};

} // namespace

ReconcileReport reconcile(FlockHands& hands, const Desired& desired, const ReconcileOptions& options) {
  ReconcileReport report;
  for (int pass = 0; pass <= options.passes_max; ++pass) {
    report.observed = hands.observe(desired);
    Plan plan = plan_actions(desired, report.observed);
    if (!plan.faults.empty()) {
      report.errors = std::move(plan.faults);
      return report;
    }
    if (plan.actions.empty()) return report;
    if (pass == options.passes_max) {
      const Action& left = plan.actions.front();
      report.errors.push_back(
          Error{ErrorCode::kInternal,
                fmt::format("the flock does not settle: after {} passes {} actions are left, first for {}: {}", pass,
                            plan.actions.size(), left.duck.empty() ? "the engine" : left.duck, left.reason),
                {},
                "run `ductl status -o wide`, and read the logs that it names"});
      return report;
    }
    if (pass == 0) {
      if (auto ok = options.check(plan, report.observed); !ok) {
        report.errors.push_back(std::move(ok.error()));
        return report;
      }
    }
    options.on_plan(plan);
    Pass(hands, desired, options, report).run(plan.actions);
    if (!report.errors.empty()) {
      report.observed = hands.observe(desired);
      return report;
    }
  }
  return report;
}

} // namespace ductl::reconcile
