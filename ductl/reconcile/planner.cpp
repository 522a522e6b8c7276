#include "ductl/reconcile/planner.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace ductl::reconcile {
namespace {

// Versions alone do not tell one build from the next.
constexpr const char* kRebuilt = "the program was rebuilt";

struct DuckPlan {
  std::vector<Action> actions = {};
  std::optional<Error> fault = {};
};

std::string address_of(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  const inventory::Ipv4 address = number < desired.serving.ducks.size() ? desired.serving.ducks[number].address : 0;
  return fmt::format("duck {}, {}:{}", duck.name, inventory::to_string(address), duck.control_port);
}

Action fill_all(const DesiredDuck& duck) {
  return {.kind = ActionKind::Fill, .duck = duck.name, .reason = "holds nothing yet", .slices = duck.slices, .bytes = duck.bytes};
}

DuckPlan start(const DesiredDuck& duck, ActionKind kind, std::string reason) {
  return {.actions = {Action{.kind = kind, .duck = duck.name, .reason = std::move(reason)}, fill_all(duck)}};
}

DuckPlan stranger(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  const agent::Hello& hello = *duck.hello;
  return {.fault = Error{ErrorCode::kAddressInUse,
                         fmt::format("an agent that this ductl did not start answers there: duck {} of flock {}, process {}",
                                     hello.name, hello.flock, hello.pid),
                         address_of(desired, number, duck),
                         "bring it down with its own inventory, or give this flock other addresses or agent ports"}};
}

std::string fill_reason(const agent::FillPlan& fill, const agent::Hello& hello) {
  if (fill.set_model) return hello.model_id.empty() ? "holds no model" : "holds another model";
  if (!fill.send.empty()) return fmt::format("{} of its slices are missing or wrong", fill.send.size());
  if (!fill.drop.empty()) return fmt::format("{} of its slices are not wanted any more", fill.drop.size());
  return "the epoch is not active";
}

// Another agent of ours has the address: a duck was renamed, or addresses were exchanged. That one is stopped too, as a leaver or
// as the duck that it is, and all stops come before any start.
DuckPlan misplaced(const DesiredDuck& wanted, const ObservedDuck& duck) {
  const std::string reason = fmt::format("duck {} runs in its place", duck.hello->name);
  DuckPlan plan = start(wanted, ActionKind::StartAgent, reason);
  if (duck.power.power == power::Power::On) {
    plan.actions.insert(plan.actions.begin(), Action{.kind = ActionKind::StopAgent, .duck = wanted.name, .reason = reason});
  }
  return plan;
}

DuckPlan plan_answering(const Desired& desired, const Observed& observed, std::size_t number) {
  const ObservedDuck& duck = observed.ducks[number];
  const agent::Hello& hello = *duck.hello;
  const DesiredDuck& wanted = desired.ducks[number];
  if (duck.power.power == power::Power::Off || hello.flock != desired.flock || hello.name != wanted.name) {
    const bool own = hello.flock == desired.flock && hello.name != wanted.name && is_own_agent(observed, hello.pid);
    return own ? misplaced(wanted, duck) : stranger(desired, number, duck);
  }
  if (!desired.version.empty() && hello.version != desired.version) {
    return start(wanted, ActionKind::RestartAgent, fmt::format("runs version {}, wanted is {}", hello.version, desired.version));
  }
  if (duck.power.outdated) return start(wanted, ActionKind::RestartAgent, kRebuilt);
  if (const std::uint16_t port = wanted_data_port(desired, number); port != 0 && hello.data_port != port) {
    return start(wanted, ActionKind::RestartAgent, fmt::format("has data port {}, wanted is {}", hello.data_port, port));
  }
  if (desired.threads != 0 && hello.threads != desired.threads) {
    return start(wanted, ActionKind::RestartAgent,
                 fmt::format("computes with {} threads, the inventory says {}", hello.threads, desired.threads));
  }
  if (duck.fill_error) return {.fault = duck.fill_error};
  if (!duck.fill || duck.fill->empty()) return {};
  return {.actions = {Action{.kind = ActionKind::Fill,
                             .duck = wanted.name,
                             .reason = fill_reason(*duck.fill, hello),
                             .slices = duck.fill->send.size(),
                             .bytes = duck.fill->send_bytes}}};
}

DuckPlan plan_silent(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  const DesiredDuck& wanted = desired.ducks[number];
  const bool reachable = duck.hello_error && duck.hello_error->code != ErrorCode::kAgentUnreachable;
  if (duck.power.power != power::Power::Off) {
    if (std::string moved = elsewhere(duck); !moved.empty()) return start(wanted, ActionKind::RestartAgent, std::move(moved));
    if (!reachable) return start(wanted, ActionKind::RestartAgent, "is on but does not answer");
    return start(wanted, ActionKind::RestartAgent, duck.hello_error->message);
  }
  if (reachable) {
    Error fault = *duck.hello_error;
    fault.message = "somebody else answers on the duck's control port: " + fault.message;
    fault.place = address_of(desired, number, duck);
    fault.next = "stop that program, or give this flock other addresses or agent ports";
    return {.fault = std::move(fault)};
  }
  return start(wanted, ActionKind::StartAgent,
               duck.power.died ? fmt::format("its process {} has ended", duck.power.pid) : std::string("is off"));
}

// What an inventory no longer names is found by the run files alone.
void stop_leavers(const Observed& observed, Plan& plan) {
  for (const ObservedLeaver& leaver : observed.leavers) {
    plan.actions.push_back({.kind = ActionKind::StopAgent, .duck = leaver.name, .reason = "is not in the inventory"});
  }
}

Plan plan_down(const Desired& desired, const Observed& observed) {
  Plan plan;
  if (observed.engine.running) plan.actions.push_back({.kind = ActionKind::StopEngine, .reason = "runs"});
  stop_leavers(observed, plan);
  for (std::size_t i = 0; i < desired.ducks.size(); ++i) {
    const ObservedDuck& duck = observed.ducks[i];
    const bool ours = duck.hello && duck.hello->flock == desired.flock && duck.hello->name == duck.name;
    if (duck.power.power == power::Power::On || (duck.power.power == power::Power::Unknown && ours)) {
      plan.actions.push_back({.kind = ActionKind::StopAgent, .duck = duck.name, .reason = "runs"});
    } else {
      ++plan.ducks_unchanged;
    }
  }
  return plan;
}

bool sessions_agree(const Observed& observed) {
  const auto tag = [](const ObservedDuck& duck) { return duck.hello ? duck.hello->session_tag : 0; };
  return std::all_of(observed.ducks.begin(), observed.ducks.end(),
                     [&](const ObservedDuck& duck) { return tag(duck) != 0 && tag(duck) == tag(observed.ducks.front()); });
}

// Why a running engine can't stay as it is; "" = it can.
std::string engine_reason(const Desired& desired, const Observed& observed, bool ducks_change) {
  if (ducks_change) return "ducks change under it";
  if (observed.engine.outdated) return kRebuilt;
  if (observed.engine.serving_text != agent::serving_text(serving_with_ports(desired, observed)))
    return "what it serves has changed";
  if (!observed.engine.healthy) return observed.engine.reason.empty() ? "does not answer" : observed.engine.reason;
  if (!sessions_agree(observed)) return "a duck has lost its session";
  return {};
}

} // namespace

agent::Serving serving_with_ports(const Desired& desired, const Observed& observed) {
  agent::Serving serving = desired.serving;
  for (std::size_t i = 0; i < serving.ducks.size() && i < observed.ducks.size(); ++i) {
    if (!observed.ducks[i].hello) continue;
    serving.ducks[i].control_port = observed.ducks[i].control_port;
    serving.ducks[i].data_port = observed.ducks[i].hello->data_port;
  }
  return serving;
}

Plan plan_actions(const Desired& desired, const Observed& observed) {
  if (desired.goal == Goal::Down) return plan_down(desired, observed);
  Plan plan;
  stop_leavers(observed, plan);
  std::vector<Action> duck_actions;
  for (std::size_t i = 0; i < desired.ducks.size(); ++i) {
    const ObservedDuck& duck = observed.ducks[i];
    DuckPlan duck_plan = duck.hello ? plan_answering(desired, observed, i) : plan_silent(desired, i, duck);
    if (duck_plan.fault) {
      plan.faults.push_back(std::move(*duck_plan.fault));
    } else if (duck_plan.actions.empty()) {
      ++plan.ducks_unchanged;
    }
    std::move(duck_plan.actions.begin(), duck_plan.actions.end(), std::back_inserter(duck_actions));
  }
  const bool ducks_change = !duck_actions.empty();
  std::move(duck_actions.begin(), duck_actions.end(), std::back_inserter(plan.actions));
  if (desired.goal == Goal::Filled) return plan;
  if (!observed.engine.running) {
    const char* reason = observed.engine.died ? "its process has ended" : "is off";
    plan.actions.push_back({.kind = ActionKind::StartEngine, .reason = reason});
  } else if (std::string reason = engine_reason(desired, observed, ducks_change); !reason.empty()) {
    plan.actions.push_back({.kind = ActionKind::RestartEngine, .reason = std::move(reason)});
  }
  return plan;
}

} // namespace ductl::reconcile
