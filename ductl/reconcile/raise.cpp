#include "ductl/reconcile/raise.hpp"

#include "ductl/reconcile/action_log.hpp"
#include "ductl/reconcile/engine_check.hpp"
#include "ductl/reconcile/state_lock.hpp"
#include "ductl/reconcile/supported.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <mutex>

namespace ductl::reconcile {
namespace {

constexpr int kFillingMax = 4; // each packs on one core and sends over one link: more only split the same

// Single actions and fill reports summed into one line a stage. Calls come from the threads of a pass.
class StageBoard {
public:
  explicit StageBoard(const std::function<void(const view::StageProgress&)>& show) : show_(show) {}

  void begin_pass(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    stages_.clear();
    filled_bytes_.clear();
    for (const Action& action : plan.actions) {
      view::StageProgress& stage = stages_[title(action.kind)];
      stage.stage = title(action.kind);
      ++stage.total;
      stage.bytes_total += action.bytes;
    }
  }

  void begin(const Action& action) {
    const std::lock_guard lock(mutex_);
    // Half of a restart is a stage that was not planned under this name.
    view::StageProgress& stage = stages_[title(action.kind)];
    stage.stage = title(action.kind);
    stage.total = std::max(stage.total, 1);
    stage.detail = action.duck.empty() ? action.reason : action.duck;
    show(stage);
  }

  // A machine that boots; its steps are told once each.
  void boot(const std::string& duck, const std::string& how_far) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(boots_[duck], how_far) == how_far) return;
    view::StageProgress& stage = stages_[title(ActionKind::Wake)];
    stage.stage = title(ActionKind::Wake);
    stage.detail = duck + ": " + how_far;
    show(stage);
  }

  void fill(const std::string& duck, const agent::FillProgress& progress) {
    const std::lock_guard lock(mutex_);
    view::StageProgress& stage = stages_[title(ActionKind::Fill)];
    filled_bytes_[duck] = progress.bytes_sent;
    stage.bytes = 0;
    for (const auto& [name, bytes] : filled_bytes_) stage.bytes += bytes;
    stage.bytes_total = std::max(stage.bytes_total, stage.bytes);
    stage.detail = duck;
    show(stage);
  }

  void end(const Action& action, const Expected<std::uint64_t>& result) {
    const std::lock_guard lock(mutex_);
    if (!result && result.error().code == ErrorCode::kCancelled) return; // the interruption is told by whoever noticed it
    view::StageProgress& stage = stages_[title(action.kind)];
    if (stage.state == view::StageState::Failed) return;
    stage.detail = result ? "" : action.duck;
    stage.done += result ? 1 : 0;
    if (!result || stage.done == stage.total) stage.state = result ? view::StageState::Done : view::StageState::Failed;
    show_(stage);
  }

private:
  // A stage ends with its first failure; what its other ducks still do is told by their errors, or by nothing.
  void show(const view::StageProgress& stage) {
    if (stage.state == view::StageState::Running) show_(stage);
  }

  static const char* title(ActionKind kind) {
    switch (kind) {
    case ActionKind::StartAgent:
    case ActionKind::RestartAgent: return "agents";
    case ActionKind::Wake:
    case ActionKind::Reboot: return "booting";
    case ActionKind::Adopt: return "adopting";
    case ActionKind::CheckHealth: return "health";
    case ActionKind::PowerOff: return "powering off";
    case ActionKind::Fill: return "filling";
    case ActionKind::StartEngine:
    case ActionKind::RestartEngine: return "engine";
    case ActionKind::StopEngine: return "stopping the engine";
    case ActionKind::StopAgent: return "stopping ducks";
    }
    return "";
  }

  const std::function<void(const view::StageProgress&)>& show_;
  std::mutex mutex_;
  std::map<std::string, view::StageProgress> stages_;
  std::map<std::string, std::uint64_t> filled_bytes_;
  std::map<std::string, std::string> boots_; // how far each has come
};

ReconcileReport failed(Error error) {
  ReconcileReport report;
  report.errors.push_back(std::move(error));
  return report;
}

ReconcileOptions reconcile_options(const LocalFlock& flock, const WalkOptions& walk, StageBoard& board, const ActionLog& log) {
  ReconcileOptions options;
  options.booting_max = std::max(1, flock.flock().power.max_booting);
  options.filling_max = kFillingMax;
  options.interrupted = walk.interrupted;
  options.on_plan = [&](const Plan& plan) { board.begin_pass(plan); };
  options.on_begin = [&](const Action& action) {
    log.begin(action);
    board.begin(action);
  };
  options.on_end = [&](const Action& action, const Expected<std::uint64_t>& result) {
    log.end(action, result);
    board.end(action, result);
  };
  return options;
}

bool starts_engine(const Plan& plan) {
  return std::any_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return action.kind == ActionKind::StartEngine || action.kind == ActionKind::RestartEngine;
  });
}

// What the engine would refuse is refused while every duck, and an engine that runs, are still as they were.
Expected<void> check_start(const LocalFlock& flock, const FlockModel& model, const WalkOptions& walk, const Plan& plan,
                           const Observed& observed) {
  if (auto ok = flock.check_starts(plan); !ok) return ok;
  if (!starts_engine(plan)) return {};
  view::StageProgress stage{.stage = "checking", .total = 1, .detail = "model and API, as the engine will take them"};
  walk.on_stage(stage);
  auto checked = check_engine(model, flock.flock(), flock.state(), observed.engine, walk.interrupted);
  stage.state = checked ? view::StageState::Done : view::StageState::Failed;
  stage.done = checked ? 1 : 0;
  stage.detail.clear();
  walk.on_stage(stage);
  return checked;
}

// Opened, checked, fitting and placed; nothing of it is written but the manifest's cache.
Expected<FlockModel> ready_model(const LocalFlock& flock, const WalkOptions& walk) {
  if (auto ok = check_supported(flock.flock()); !ok) return tl::unexpected(ok.error());
  auto model = open_flock_model(flock.flock());
  if (!model) return model;
  if (auto fits = check_fit(*model, flock.flock(), flock.state(), flock.private_bytes()); !fits)
    return tl::unexpected(fits.error());
  const auto packing = [&](int done, int total) {
    walk.on_stage({.stage = "packing",
                   .state = done == total ? view::StageState::Done : view::StageState::Running,
                   .done = done,
                   .total = total,
                   .detail = done == total ? "" : "layers, once a model"});
  };
  if (auto placed = place_model(*model, flock.flock(), flock.state(), packing, walk.interrupted); !placed)
    return tl::unexpected(placed.error());
  return model;
}

} // namespace

ReconcileReport raise_flock(LocalFlock& flock, const WalkOptions& walk) {
  if (auto ok = check_supported(flock.flock()); !ok) return failed(ok.error());
  if (auto ok = agent::check_state_folder(flock.state()); !ok) return failed(ok.error());
  if (auto ok = flock.prepare(); !ok) return failed(ok.error());
  const auto lock = StateLock::take(flock.state());
  if (!lock) return failed(lock.error());
  const auto model = ready_model(flock, walk);
  if (!model) return failed(model.error());
  if (auto saved = save_changed_placement(*model, flock.state()); !saved) return failed(saved.error());

  const Desired desired = desired_state(*model, flock.flock(), walk.goal);
  const auto log = ActionLog::open(flock.state());
  if (!log) return failed(log.error());
  log->walk("up:", flock.flock().name);
  StageBoard board(walk.on_stage);
  flock.use_model(&*model);
  flock.on_fill([&](const std::string& duck, const agent::FillProgress& progress) { board.fill(duck, progress); });
  flock.on_boot([&](const std::string& duck, const std::string& how_far) { board.boot(duck, how_far); });
  flock.on_interrupt(walk.interrupted);
  ReconcileOptions options = reconcile_options(flock, walk, board, *log);
  options.check = [&](const Plan& plan, const Observed& observed) { return check_start(flock, *model, walk, plan, observed); };
  ReconcileReport report = reconcile(flock.hands(), desired, options);
  flock.on_fill([](const std::string&, const agent::FillProgress&) {});
  flock.on_boot([](const std::string&, const std::string&) {});
  flock.on_interrupt([] { return false; });
  flock.use_model(nullptr);
  if (report.converged() && walk.goal == Goal::Filled) {
    const auto saved = agent::save_serving(serving_with_ports(desired, report.observed), flock.state().serving());
    if (!saved) report.errors.push_back(saved.error());
  }
  log->finish(report);
  return report;
}

ReconcileReport lower_flock(LocalFlock& flock, const WalkOptions& walk) {
  std::error_code error;
  if (auto ok = agent::check_state_folder(flock.state()); !ok) return failed(ok.error());
  if (!std::filesystem::exists(flock.state().root, error)) return {}; // it never was up
  const auto lock = StateLock::take(flock.state());
  if (!lock) return failed(lock.error());
  const Desired desired = remembered_state(flock.flock(), flock.state(), Goal::Down);
  const ActionLog log = ActionLog::open(flock.state()).value_or(ActionLog()); // stopping must not fail for want of a log
  log.walk("down:", flock.flock().name);
  StageBoard board(walk.on_stage);
  ReconcileReport report = reconcile(flock.hands(), desired, reconcile_options(flock, walk, board, log));
  log.finish(report);
  if (report.converged()) flock.forget_running();
  return report;
}

Expected<Plan> plan_flock(LocalFlock& flock, const WalkOptions& walk) {
  if (auto ok = agent::check_state_folder(flock.state()); !ok) return tl::unexpected(ok.error());
  const auto model = ready_model(flock, walk);
  if (!model) return tl::unexpected(model.error());
  const Desired desired = desired_state(*model, flock.flock(), walk.goal);
  flock.use_model(&*model);
  Plan plan = plan_actions(desired, flock.hands().observe(desired));
  flock.use_model(nullptr);
  plan.format = desired.format;
  return plan;
}

} // namespace ductl::reconcile
