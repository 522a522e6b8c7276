// A flock in memory behind FlockHands: ducks that start, hold slices, forget, die and run the wrong version, and an engine that
// loses them. Slices are counted, not stored. What goes wrong is chosen by the test, or by a seed.
#pragma once

#include "ductl/reconcile/reconciler.hpp"

#include <algorithm>
#include <mutex>
#include <random>

namespace ductl::reconcile {

struct SimulatedDuck {
  bool on = false, died = false, foreign = false; // foreign: somebody else's agent sits on the port
  std::string version = "1", model_id = {};
  bool outdated = false;
  std::uint64_t held = 0; // slices of model_id, the right ones
  std::uint32_t epoch = 0;
  std::uint64_t session_tag = 0;
  int refuses_to_start = 0; // that many times
};

class SimulatedFlock final : public FlockHands {
public:
  static constexpr std::uint64_t kSliceBytes = 1000;
  static constexpr int kLeaverPid = 1000, kDuckPid = 2000; // the first duck's; the others count up
  std::vector<SimulatedDuck> ducks;
  std::vector<std::string> leavers = {}; // run, and are not in the inventory
  bool engine_running = false, engine_died = false, engine_broken = false, engine_outdated = false;
  std::string serving_text = {};
  std::uint64_t next_tag = 1;
  std::function<void(const Action&)> before_action = [](const Action&) {}; // the place for a duck to die

  explicit SimulatedFlock(std::size_t count) : ducks(count) {}

  static Desired desired(std::size_t count, std::uint64_t slices_each = 10) {
    Desired desired{.goal = Goal::Serving, .flock = "sim", .version = "1", .model_id = "model", .ducks = {}, .serving = {}};
    desired.serving.flock = "sim";
    desired.serving.epoch = 1;
    for (std::size_t i = 0; i < count; ++i) {
      desired.ducks.push_back({.name = name(i), .slices = slices_each, .bytes = slices_each * kSliceBytes});
      desired.serving.ducks.push_back({.name = name(i),
                                       .port_index = 0,
                                       .address = 0x7f150165u + static_cast<std::uint32_t>(i),
                                       .control_port = 7421,
                                       .data_port = 7422});
    }
    return desired;
  }

  static std::string name(std::size_t i) { return "duck" + std::to_string(i); }

  static agent::Hello hello_of_leaver(const std::string& name) {
    agent::Hello hello;
    hello.name = name;
    hello.flock = "sim";
    hello.version = "1";
    hello.pid = kLeaverPid;
    return hello;
  }

  void kill(std::size_t i) {
    const int refuses = ducks[i].refuses_to_start;
    ducks[i] = {.on = false, .died = true, .refuses_to_start = refuses};
    engine_broken = engine_running;
  }

  Observed observe(const Desired& desired) override {
    const std::lock_guard lock(mutex_);
    return look(desired);
  }

  Expected<std::uint64_t> act(const Desired& desired, const Action& action) override {
    const std::lock_guard lock(mutex_);
    before_action(action);
    switch (action.kind) {
    case ActionKind::StopEngine: engine_running = engine_died = engine_broken = false; return 0;
    case ActionKind::StartEngine:
    case ActionKind::RestartEngine: return start_engine(desired);
    default: break;
    }
    if (std::erase(leavers, action.duck) > 0) {
      if (action.kind == ActionKind::StopAgent) return 0;
      return fail(ErrorCode::kInternal, "not a leaver's action");
    }
    SimulatedDuck& duck = ducks[index_of(action.duck)];
    switch (action.kind) {
    case ActionKind::StopAgent: duck = {}; return 0;
    case ActionKind::RestartAgent:
    case ActionKind::StartAgent: return start(duck);
    case ActionKind::Fill: return fill(desired, duck, action);
    default: return fail(ErrorCode::kInternal, "not a duck's action");
    }
  }

private:
  Observed look(const Desired& desired) const {
    Observed observed;
    for (std::size_t i = 0; i < ducks.size(); ++i) observed.ducks.push_back(observe_duck(desired, i));
    observed.engine = {.seen = {},
                       .running = engine_running,
                       .died = engine_died,
                       .outdated = engine_outdated,
                       .pid = 1,
                       .api_port = 1,
                       .private_bytes = 0,
                       .healthy = engine_running && !engine_broken,
                       .reason = engine_broken ? "a duck died" : "",
                       .serving_text = serving_text};
    for (const std::string& leaver : leavers) observed.leavers.push_back({.name = leaver, .pid = kLeaverPid});
    return observed;
  }

  static std::size_t index_of(const std::string& name) { return static_cast<std::size_t>(std::stoi(name.substr(4))); }

  ObservedDuck observe_duck(const Desired& desired, std::size_t i) const {
    const SimulatedDuck& duck = ducks[i];
    ObservedDuck seen{.name = name(i), .control_port = 7421};
    seen.power.power = duck.on ? power::Power::On : power::Power::Off;
    seen.power.died = duck.died;
    seen.power.outdated = duck.on && duck.outdated;
    seen.power.pid = duck.on ? kDuckPid + static_cast<int>(i) : 0;
    if (!duck.on && !duck.foreign) {
      seen.hello_error = Error{ErrorCode::kAgentUnreachable, "connection refused", name(i), {}};
      return seen;
    }
    agent::Hello hello;
    hello.name = name(i);
    hello.flock = duck.foreign ? "other" : "sim";
    hello.version = duck.version;
    hello.model_id = duck.model_id;
    hello.slices_held = duck.held;
    hello.slices_active = duck.epoch != 0 ? duck.held : 0;
    hello.epoch = duck.epoch;
    hello.session_tag = duck.session_tag;
    hello.data_port = 7422;
    hello.pid = duck.foreign ? 1 : kDuckPid + static_cast<int>(i);
    seen.hello = hello;
    if (!duck.foreign) seen.fill = fill_plan(desired, i);
    return seen;
  }

  agent::FillPlan fill_plan(const Desired& desired, std::size_t i) const {
    const SimulatedDuck& duck = ducks[i];
    agent::FillPlan plan;
    plan.duck = name(i);
    plan.set_model = duck.model_id != desired.model_id;
    const std::uint64_t held = plan.set_model ? 0 : duck.held;
    plan.send.resize(desired.ducks[i].slices - held);
    plan.send_bytes = plan.send.size() * kSliceBytes;
    plan.activate = plan.set_model || !plan.send.empty() || duck.epoch != desired.serving.epoch;
    return plan;
  }

  static Expected<std::uint64_t> start(SimulatedDuck& duck) {
    if (duck.refuses_to_start > 0) {
      const int left = duck.refuses_to_start - 1;
      duck = {.died = true, .refuses_to_start = left};
      return fail(ErrorCode::kPower, "it did not start");
    }
    duck = {.on = true};
    return 0;
  }

  Expected<std::uint64_t> fill(const Desired& desired, SimulatedDuck& duck, const Action& action) {
    if (!duck.on) return fail(ErrorCode::kDuckDied, "the duck is gone");
    const agent::FillPlan plan = fill_plan(desired, index_of(action.duck));
    duck.model_id = desired.model_id;
    duck.held = desired.ducks[index_of(action.duck)].slices;
    duck.epoch = desired.serving.epoch;
    return plan.send_bytes;
  }

  Expected<std::uint64_t> start_engine(const Desired& desired) {
    const auto well = [&](const SimulatedDuck& duck) { return duck.on && duck.epoch == desired.serving.epoch; };
    if (!std::all_of(ducks.begin(), ducks.end(), well)) return fail(ErrorCode::kEngineStart, "a duck does not answer the engine");
    for (SimulatedDuck& duck : ducks) duck.session_tag = next_tag;
    ++next_tag;
    engine_running = true;
    engine_died = engine_broken = engine_outdated = false;
    serving_text = agent::serving_text(serving_with_ports(desired, look(desired)));
    return 0;
  }

  std::mutex mutex_;
};

} // namespace ductl::reconcile
