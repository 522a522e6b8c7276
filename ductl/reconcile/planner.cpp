#include "ductl/reconcile/planner.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace ductl::reconcile {
namespace {

// Versions alone do not tell one build from the next.
constexpr const char* kRebuilt = "the program was rebuilt";
constexpr std::size_t kImageIdShown = 12;

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

// From a machine's agent that has no key yet to one that holds its slices. Weights go to no duck that is not as it should be.
void raise_machine(const DesiredDuck& duck, const std::string& reason, std::vector<Action>& actions) {
  actions.push_back({.kind = ActionKind::Adopt, .duck = duck.name, .reason = reason});
  actions.push_back({.kind = ActionKind::CheckHealth, .duck = duck.name, .reason = "before weights go in"});
  actions.push_back(fill_all(duck));
}

DuckPlan boot_machine(const DesiredDuck& duck, ActionKind kind, std::string reason) {
  DuckPlan plan;
  plan.actions.push_back({.kind = kind, .duck = duck.name, .reason = std::move(reason)});
  raise_machine(duck, "has no key after its boot", plan.actions);
  return plan;
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

Action fill_rest(const std::string& duck, const agent::FillPlan& fill, const agent::Hello& hello) {
  return {.kind = ActionKind::Fill,
          .duck = duck,
          .reason = fill_reason(fill, hello),
          .slices = fill.send.size(),
          .bytes = fill.send_bytes};
}

DuckPlan plan_machine(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  const agent::Hello& hello = *duck.hello;
  const DesiredDuck& wanted = desired.ducks[number];
  if (const std::string other = other_machine_reason(wanted, hello); !other.empty())
    return {.fault = Error{ErrorCode::kAddressInUse, fmt::format("duck {}: {}", wanted.name, other),
                           address_of(desired, number, duck), kOtherMachineNext}};
  if (hello.adopted && hello.flock != desired.flock) return stranger(desired, number, duck);
  DuckPlan plan;
  if (!hello.adopted) plan.actions.push_back({.kind = ActionKind::Adopt, .duck = wanted.name, .reason = "has no key yet"});
  if (const std::string reason = image_reason(desired, hello); !reason.empty()) {
    DuckPlan anew = boot_machine(wanted, ActionKind::Reboot, reason);
    std::move(anew.actions.begin(), anew.actions.end(), std::back_inserter(plan.actions));
    return plan;
  }
  // A name is for a boot, as a key is.
  if (hello.adopted && hello.name != wanted.name)
    return boot_machine(wanted, ActionKind::Reboot, fmt::format("was adopted as {}", hello.name));
  if (!hello.adopted) {
    plan.actions.pop_back();
    raise_machine(wanted, "has no key yet", plan.actions);
    return plan;
  }
  if (duck.fill_error) return {.fault = duck.fill_error};
  if (!duck.fill || duck.fill->empty()) return {};
  plan.actions.push_back({.kind = ActionKind::CheckHealth, .duck = wanted.name, .reason = "before weights go in"});
  plan.actions.push_back(fill_rest(wanted.name, *duck.fill, hello));
  return plan;
}

// Another protocol can't be talked to, not even to be restarted; whatever else answers is somebody else.
DuckPlan plan_silent_machine(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  if (duck.hello_error && duck.hello_error->code != ErrorCode::kAgentUnreachable) {
    Error fault = *duck.hello_error;
    fault.place = address_of(desired, number, duck);
    fault.next = fault.code == ErrorCode::kAgentVersion
                     ? "switch it off by its button: it boots the present image when `ductl up` wakes it"
                     : "give the flock other addresses, or look for the other machine that has this one";
    return {.fault = std::move(fault)};
  }
  return boot_machine(desired.ducks[number], ActionKind::Wake, "does not answer");
}

DuckPlan plan_answering(const Desired& desired, const Observed& observed, std::size_t number) {
  const ObservedDuck& duck = observed.ducks[number];
  const agent::Hello& hello = *duck.hello;
  const DesiredDuck& wanted = desired.ducks[number];
  if (desired.kind == DuckKind::Machine) return plan_machine(desired, number, duck);
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
  return {.actions = {fill_rest(wanted.name, *duck.fill, hello)}};
}

DuckPlan plan_silent(const Desired& desired, std::size_t number, const ObservedDuck& duck) {
  if (desired.kind == DuckKind::Machine) return plan_silent_machine(desired, number, duck);
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
    if (desired.kind == DuckKind::Machine) {
      const bool in_place = duck.hello && other_machine_reason(desired.ducks[i], *duck.hello).empty();
      if (in_place && (duck.hello->flock == desired.flock || !duck.hello->adopted)) { // whatever name it was adopted by
        plan.actions.push_back({.kind = ActionKind::PowerOff, .duck = duck.name, .reason = "is on"});
      } else {
        ++plan.ducks_unchanged;
      }
      continue;
    }
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

std::string image_reason(const Desired& desired, const agent::Hello& hello) {
  if (desired.image.empty() || hello.image == desired.image) return {};
  const auto shown = [](const std::string& id) { return id.empty() ? std::string("none") : id.substr(0, kImageIdShown); };
  return fmt::format("runs image {}, wanted is {}", shown(hello.image), shown(desired.image));
}

std::string other_machine_reason(const DesiredDuck& wanted, const agent::Hello& hello) {
  const auto told = inventory::parse_mac(hello.mac);
  if (!told || !wanted.mac || *told == *wanted.mac) return {};
  return fmt::format("another machine answers in its place: MAC {}, the inventory has {}", inventory::to_string(*told),
                     inventory::to_string(*wanted.mac));
}

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
