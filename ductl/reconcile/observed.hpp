// What was seen of a flock: facts with the time they were seen, nothing concluded. Plain values.
#pragma once

#include "agent/client/fill.hpp"
#include "ductl/boot/boot_diagnosis.hpp"
#include "ductl/power/power_driver.hpp"
#include "inventory/clock.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ductl::reconcile {

// A machine's way to its agent, as boots.json and its diagnosis have it.
struct ObservedBoot {
  boot::BootStep step = boot::BootStep::None;
  boot::BootVerdict verdict = {};
  bool under_way = false; // its agent may come by itself
};

struct ObservedDuck {
  std::string name;
  Instant seen = {};
  power::PowerState power = {};
  inventory::Ipv4 address = 0;            // where its agent was asked,
  std::uint16_t control_port = 0;         // and at which port; 0 = nowhere to ask
  std::optional<agent::Hello> hello = {}; // what an agent answered there, ours or not
  std::optional<Error> hello_error = {};  // else why it did not
  std::optional<agent::FillPlan> fill =
      {}; // held slices compared with the placement; only of our own agents, only when asked for
  std::optional<Error> fill_error = {};
  std::optional<agent::AgentStats> stats = {}; // only when asked for
  std::optional<agent::Health> health = {};    // of machines; of processes only when asked for
  std::optional<ObservedBoot> boot = {};       // of machines that do not answer
};

struct ObservedEngine {
  Instant seen = {};
  bool running = false;  // our process
  bool died = false;     // started, and ended by itself since
  bool outdated = false; // its program was built anew since
  int pid = 0;
  std::uint16_t api_port = 0;
  std::uint64_t private_bytes = 0;
  bool healthy = false;          // /health says that it can answer a token now
  std::string reason = {};       // why it is not healthy, in its own words or as the connection failed
  std::string serving_text = {}; // serving.json as it stands; "" = none
};

// Why an agent that runs is not heard where it was asked: it was started with another address or control port. "" = it was not.
[[nodiscard]] inline std::string elsewhere(const ObservedDuck& duck) {
  if (duck.power.address != 0 && duck.power.address != duck.address)
    return "runs at " + inventory::to_string(duck.power.address) + ", the inventory says " + inventory::to_string(duck.address);
  if (duck.power.control_port == 0 || duck.power.control_port == duck.control_port) return {};
  return "has control port " + std::to_string(duck.power.control_port) + ", the inventory says " +
         std::to_string(duck.control_port);
}

// An agent of this flock that runs under a name which no duck of the inventory has (any more).
struct ObservedLeaver {
  std::string name;
  int pid = 0;
};

struct Observed {
  std::vector<ObservedDuck> ducks; // in the order of the desired state
  ObservedEngine engine;
  std::vector<ObservedLeaver> leavers = {};
};

// An agent that this flock's ductl started, by its run file, whatever name it goes by.
[[nodiscard]] inline bool is_own_agent(const Observed& observed, int pid) {
  const auto duck_is = [pid](const ObservedDuck& duck) { return duck.power.power == power::Power::On && duck.power.pid == pid; };
  return pid > 0 && (std::any_of(observed.ducks.begin(), observed.ducks.end(), duck_is) ||
                     std::any_of(observed.leavers.begin(), observed.leavers.end(),
                                 [pid](const ObservedLeaver& leaver) { return leaver.pid == pid; }));
}

} // namespace ductl::reconcile
