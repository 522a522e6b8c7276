#include "ductl/commands/walk_view.hpp"

#include "ductl/commands/interrupt.hpp"
#include "ductl/view/error_view.hpp"
#include "ductl/view/format.hpp"
#include "inventory/error_json.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

using reconcile::Action;
using reconcile::ActionKind;

struct ActionWords {
  char sign;
  const char *verb, *key;
};

ActionWords words_of(ActionKind kind) {
  switch (kind) {
  case ActionKind::StopEngine: return {'-', "stop", "stop-engine"};
  case ActionKind::StartAgent: return {'+', "start", "start-agent"};
  case ActionKind::RestartAgent: return {'~', "restart", "restart-agent"};
  case ActionKind::StopAgent: return {'-', "stop", "stop-agent"};
  case ActionKind::Wake: return {'+', "wake", "wake"};
  case ActionKind::Reboot: return {'~', "reboot", "reboot"};
  case ActionKind::Adopt: return {'+', "adopt", "adopt"};
  case ActionKind::CheckHealth: return {'~', "check", "check-health"};
  case ActionKind::PowerOff: return {'-', "power off", "power-off"};
  case ActionKind::Fill: return {'~', "fill", "fill"};
  case ActionKind::StartEngine: return {'+', "start", "start-engine"};
  case ActionKind::RestartEngine: return {'~', "restart", "restart-engine"};
  }
  return {'?', "", ""};
}

view::Moment moment() { return {Clock::now(), std::chrono::system_clock::now()}; }

} // namespace

void WalkView::show(const view::StageProgress& progress) {
  const std::lock_guard lock(mutex_);
  context_.err.write(painter_.update(progress, moment()));
}

void WalkView::close() {
  const std::lock_guard lock(mutex_);
  context_.err.write(painter_.close());
}

bool WalkView::interrupted() {
  if (InterruptWatch::signal() == 0) return false;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(told_, true)) {
    context_.err.write(painter_.close());
    context_.say("interrupted: stopping");
  }
  return true;
}

std::string action_text(const Action& action) {
  const ActionWords words = words_of(action.kind);
  const std::string who = action.duck.empty() ? "engine" : action.duck;
  if (action.kind != ActionKind::Fill) return fmt::format("{} {} {} ({})", words.sign, words.verb, who, action.reason);
  return fmt::format("{} {} {}: {} slices, {} ({})", words.sign, words.verb, who, view::count_text(action.slices),
                     view::bytes_text(action.bytes), action.reason);
}

std::string plan_summary(const reconcile::Plan& plan) {
  const auto count = [&](ActionKind kind) {
    return std::count_if(plan.actions.begin(), plan.actions.end(), [&](const Action& action) { return action.kind == kind; });
  };
  std::uint64_t bytes = 0;
  for (const Action& action : plan.actions) bytes += action.bytes;
  std::vector<std::string> parts;
  const auto add = [&](ActionKind kind, const char* what) {
    if (count(kind) > 0) parts.push_back(fmt::format("{} {}", count(kind), what));
  };
  add(ActionKind::StartAgent, "to start");
  add(ActionKind::RestartAgent, "to restart");
  add(ActionKind::Wake, "to wake");
  add(ActionKind::Reboot, "to reboot");
  add(ActionKind::Adopt, "to adopt");
  if (count(ActionKind::Fill) > 0)
    parts.push_back(fmt::format("{} to fill ({}{}{})", count(ActionKind::Fill), view::bytes_text(bytes),
                                plan.format.empty() ? "" : " of ", plan.format));
  add(ActionKind::StartEngine, "engine to start");
  add(ActionKind::RestartEngine, "engine to restart");
  add(ActionKind::StopEngine, "engine to stop");
  add(ActionKind::StopAgent, "to stop");
  add(ActionKind::PowerOff, "to power off");
  return fmt::format("Plan: {}. {} ducks unchanged.", parts.empty() ? "nothing to do" : fmt::format("{}", fmt::join(parts, ", ")),
                     plan.ducks_unchanged);
}

nlohmann::ordered_json action_json(const Action& action) {
  return {{"kind", words_of(action.kind).key},
          {"duck", action.duck.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(action.duck)},
          {"reason", action.reason},
          {"slices", action.slices},
          {"bytes", action.bytes}};
}

ExitCode report_errors(CommandContext& context, std::span<const Error> plain) {
  std::vector<Error> errors;
  for (const Error& error : plain) errors.push_back(context.with_inventory(error));
  for (std::size_t i = errors.size(); i > 0; --i) context.err.write(view::error_text(errors[i - 1], context.err.colour));
  if (context.wants_json()) context.write_json(errors_document(errors));
  const ExitCode code = exit_code(errors.front().code);
  return code == ExitCode::Interrupted && InterruptWatch::signal() != 0 ? InterruptWatch::exit_code() : code;
}

} // namespace ductl::commands
