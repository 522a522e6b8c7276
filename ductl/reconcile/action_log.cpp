#include "ductl/reconcile/action_log.hpp"

#include "agent/client/process_log.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace ductl::reconcile {
namespace {

std::string text_of(const Action& action) {
  const std::string who = action.duck.empty() ? "the engine" : action.duck;
  switch (action.kind) {
  case ActionKind::StopEngine:
  case ActionKind::StopAgent: return "stop " + who;
  case ActionKind::StartAgent:
  case ActionKind::StartEngine: return "start " + who;
  case ActionKind::RestartAgent:
  case ActionKind::RestartEngine: return "restart " + who;
  case ActionKind::Wake: return "wake " + who;
  case ActionKind::Reboot: return "reboot " + who;
  case ActionKind::Adopt: return "adopt " + who;
  case ActionKind::CheckHealth: return "check the health of " + who;
  case ActionKind::PowerOff: return "power off " + who;
  case ActionKind::Fill: return fmt::format("fill {}, {} slices of {} bytes", who, action.slices, action.bytes);
  }
  return who;
}

// On one line, as the log is read with grep.
std::string text_of(const Error& error) {
  std::string text = fmt::format("error[{}]: {}", error.code_name(), error.message);
  if (!error.place.empty()) text += " --> " + error.place;
  if (!error.next.empty()) text += "; help: " + error.next;
  return text;
}

} // namespace

Expected<ActionLog> ActionLog::open(const agent::StateFolder& state) {
  if (auto started = agent::start_log(state.log(kOwnProcess)); !started) return tl::unexpected(started.error());
  ActionLog log;
  log.open_ = true;
  return log;
}

void ActionLog::walk(std::string_view verb, const std::string& flock) const {
  if (open_) spdlog::info("{} flock {}, process {}", verb, flock, getpid());
}

void ActionLog::begin(const Action& action) const {
  if (open_) spdlog::info("{} ({})", text_of(action), action.reason);
}

void ActionLog::end(const Action& action, const Expected<std::uint64_t>& result) const {
  if (!open_) return;
  if (result) {
    spdlog::info("{}: done{}", text_of(action), *result > 0 ? fmt::format(", {} bytes sent", *result) : std::string());
  } else {
    spdlog::error("{}: {}", text_of(action), text_of(result.error()));
  }
}

void ActionLog::finish(const ReconcileReport& report) const {
  if (!open_) return;
  for (const Error& error : report.errors) spdlog::error("{}", text_of(error));
  spdlog::info("{}: {} actions, {} bytes sent", report.converged() ? "as desired" : "given up", report.actions,
               report.bytes_sent);
}

} // namespace ductl::reconcile
