// From observed and desired to actions: pure, so that `plan` prints what `up` does and tests need no flock.
//
// An action presses a switch; only the next observation says whether it worked. Applied to a flock that is as desired, the
// plan is empty. No rule depends on the time: facts are fresh because the loop looks again before every pass.
#pragma once

#include "ductl/reconcile/desired.hpp"
#include "ductl/reconcile/observed.hpp"

namespace ductl::reconcile {

enum class ActionKind {
  StopEngine,
  StartAgent, // of processes: these three
  RestartAgent,
  StopAgent,
  Wake, // of machines: these; each returns when the duck has been seen to be there, or gone
  Reboot,
  Adopt,
  CheckHealth,
  PowerOff,
  Fill,
  StartEngine,
  RestartEngine
};

struct Action {
  ActionKind kind = ActionKind::StartAgent;
  std::string duck = {};               // "" for the engine
  std::string reason = {};             // why, for a person
  std::uint64_t slices = 0, bytes = 0; // Fill: to send
  bool operator==(const Action&) const = default;
};

struct Plan {
  std::vector<Action>
      actions; // engine stops first, then leavers, then ducks in their order (each one's in order), engine starts last
  std::vector<Error> faults; // what no action of ours can mend; nothing should be done while there are any
  int ducks_unchanged = 0;
  std::string format = {}; // of the slices, as desired
};

[[nodiscard]] Plan plan_actions(const Desired& desired, const Observed& observed);

// Why a machine is not to stay on the image that it runs; "" = it is the wanted one, or any will do.
[[nodiscard]] std::string image_reason(const Desired& desired, const agent::Hello& hello);

// Why what answers at a machine's address is not that machine: its agent tells another MAC than the inventory has. "" = it is, or
// tells none.
[[nodiscard]] std::string other_machine_reason(const DesiredDuck& wanted, const agent::Hello& hello);
inline constexpr const char* kOtherMachineNext =
    "correct the duck's `mac` or `address` in the inventory, or unplug the machine that has its address";

// desired.serving with the ports that were observed: what serving.json should hold.
[[nodiscard]] agent::Serving serving_with_ports(const Desired& desired, const Observed& observed);

} // namespace ductl::reconcile
