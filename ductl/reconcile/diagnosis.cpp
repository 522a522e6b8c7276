#include "ductl/reconcile/diagnosis.hpp"

#include "ductl/reconcile/planner.hpp"
#include "ductl/reconcile/straggler.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::reconcile {
namespace {

constexpr std::array<std::string_view, 10> kStageNames{"off",   "waking",  "dhcp",    "loader", "image",
                                                       "agent", "healthy", "filling", "ready",  "serving"};
constexpr const char* kRunUp = "run `ductl up`";

DuckDiagnosis diagnose_silent(const ObservedDuck& duck) {
  const bool reachable = duck.hello_error && duck.hello_error->code != ErrorCode::kAgentUnreachable;
  if (const std::string moved = elsewhere(duck); duck.power.power == power::Power::On && !moved.empty())
    return {.name = duck.name, .stage = Stage::Agent, .reason = moved, .next = kRunUp};
  if (duck.power.power == power::Power::On) {
    return {.name = duck.name,
            .stage = Stage::Waking,
            .reason = fmt::format("process {} runs but {}", duck.power.pid,
                                  reachable ? "answers: " + duck.hello_error->message : std::string("does not answer")),
            .next = kRunUp};
  }
  if (reachable) {
    return {.name = duck.name,
            .reason = "somebody else answers on its control port: " + duck.hello_error->message,
            .next = "stop that program, or change the flock's addresses or agent ports"};
  }
  return {.name = duck.name,
          .reason = duck.power.died ? fmt::format("its process {} has ended", duck.power.pid) : std::string("not started"),
          .next = duck.power.died ? fmt::format("read its log, then {}", kRunUp) : std::string(kRunUp)};
}

Stage stage_of(boot::BootStep step) {
  switch (step) {
  case boot::BootStep::None: return Stage::Off;
  case boot::BootStep::Woken: return Stage::Waking;
  case boot::BootStep::Asked:
  case boot::BootStep::Leased: return Stage::Dhcp;
  case boot::BootStep::Loader: return Stage::Loader;
  case boot::BootStep::Image: return Stage::Image;
  case boot::BootStep::Agent: return Stage::Agent;
  }
  return Stage::Off;
}

DuckDiagnosis diagnose_silent_machine(const ObservedDuck& duck) {
  if (duck.hello_error && duck.hello_error->code != ErrorCode::kAgentUnreachable)
    return {.name = duck.name, .stage = Stage::Agent, .reason = duck.hello_error->message, .next = duck.hello_error->next};
  const ObservedBoot boot = duck.boot.value_or(ObservedBoot{});
  if (boot.step == boot::BootStep::None && boot.verdict.reason.empty())
    return {.name = duck.name, .reason = "does not answer, and was not woken", .next = kRunUp};
  return {.name = duck.name,
          .stage = stage_of(boot.step),
          .reason = boot.verdict.reason,
          .next = boot.verdict.next.empty() ? kRunUp : boot.verdict.next};
}

DuckDiagnosis diagnose_answering(const Desired& desired, const Observed& observed, std::size_t number, bool serves) {
  const DesiredDuck& wanted = desired.ducks[number];
  const ObservedDuck& duck = observed.ducks[number];
  const agent::Hello& hello = *duck.hello;
  if (const std::string other = other_machine_reason(wanted, hello); desired.kind == DuckKind::Machine && !other.empty())
    return {.name = duck.name, .reason = other, .next = kOtherMachineNext};
  if (desired.kind == DuckKind::Machine && !hello.adopted)
    return {.name = duck.name, .stage = Stage::Agent, .reason = "is up and in no flock yet", .next = kRunUp};
  if (desired.kind == DuckKind::Machine && hello.flock == desired.flock && hello.name != duck.name)
    return {.name = duck.name,
            .stage = Stage::Agent,
            .reason = fmt::format("was adopted as {}, before it was renamed", hello.name),
            .next = kRunUp};
  if (hello.flock == desired.flock && hello.name != duck.name && is_own_agent(observed, hello.pid)) {
    return {.name = duck.name, .reason = fmt::format("duck {} of this flock runs in its place", hello.name), .next = kRunUp};
  }
  if (duck.power.power == power::Power::Off || hello.flock != desired.flock || hello.name != duck.name) {
    return {.name = duck.name,
            .reason = fmt::format("an agent of somebody else answers there: duck {} of flock {}, process {}", hello.name,
                                  hello.flock, hello.pid),
            .next = "stop it, or change the flock's addresses or agent ports"};
  }
  DuckDiagnosis result{.name = duck.name, .stage = Stage::Ready, .next = kRunUp};
  if (!desired.version.empty() && hello.version != desired.version) {
    result.stage = Stage::Agent;
    result.reason = fmt::format("runs version {}, this is {}", hello.version, desired.version);
  } else if (const std::uint16_t port = wanted_data_port(desired, number); port != 0 && hello.data_port != port) {
    result.stage = Stage::Agent;
    result.reason = fmt::format("has data port {}, the inventory says {}", hello.data_port, port);
  } else if (hello.slices_held == 0) {
    result.stage = Stage::Healthy;
    result.reason = "holds no slices";
  } else if (wanted.slices != 0 && (hello.model_id != desired.model_id || hello.slices_held < wanted.slices)) {
    result.stage = Stage::Filling;
    result.reason = hello.model_id != desired.model_id ? "holds another model"
                                                       : fmt::format("{} slices are missing", wanted.slices - hello.slices_held);
  } else if (hello.epoch == 0 || hello.slices_active == 0) {
    result.stage = Stage::Filling;
    result.reason = "its slices are not active";
  } else if (!serves) {
    result.reason = "the engine does not use it";
  } else {
    result.stage = Stage::Serving;
    result.next.clear();
  }
  return result;
}

// What an agent tells of its machine, beside what the inventory expects; "" = nothing is short.
std::string shortage(const DesiredDuck& wanted, const agent::Hello& hello) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  std::string text;
  if (wanted.cores != 0 && hello.cores != wanted.cores)
    text = fmt::format("has {} cores, expected {}", hello.cores, wanted.cores);
  if (hello.memory_bytes < wanted.memory_bytes) {
    text += fmt::format("{}has {:.2f} GiB of memory, expected {:.2f}", text.empty() ? "" : "; ",
                        static_cast<double>(hello.memory_bytes) / kGib, static_cast<double>(wanted.memory_bytes) / kGib);
  }
  return text;
}

void note(DuckDiagnosis& result, const std::string& text, const std::string& next) {
  if (text.empty()) return;
  result.reason += result.reason.empty() ? text : "; " + text;
  if (result.next.empty()) result.next = next;
}

std::string check_text(const agent::HealthCheck& check) {
  std::string text = fmt::format("{}: {}", check.name, check.value.empty() ? agent::to_string(check.state) : check.value.c_str());
  if (!check.expected.empty()) text += ", expected " + check.expected;
  return text;
}

// It says more than it changes: a duck that is not what it should be serves all the same. The checks of a machine
// know more than its hello.
void note_condition(const Desired& desired, const DesiredDuck& wanted, const ObservedDuck& duck, DuckDiagnosis& result) {
  if (result.stage == Stage::Off) return; // somebody else's agent
  constexpr const char* kRepair = "repair the duck, or say in the inventory what it has";
  note(result, image_reason(desired, *duck.hello), "`ductl up` restarts it into the wanted image");
  // A process knows nothing of the inventory; a machine was told at its adoption, and its checks compare.
  if (!duck.health || desired.kind == DuckKind::Process) note(result, shortage(wanted, *duck.hello), kRepair);
  if (!duck.health) return;
  for (const agent::HealthCheck& check : duck.health->checks) {
    if (check.name == agent::check::kImage) continue; // said above
    if (check.state == agent::HealthState::Fail || check.state == agent::HealthState::Warn)
      note(result, check_text(check), check.advice.empty() ? kRepair : check.advice);
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The tag of the engine's session: that of any duck which it serves with.
std::uint64_t engine_session(const Observed& observed, const std::vector<std::string>& serving_ducks) {
  for (const ObservedDuck& duck : observed.ducks) {
    if (duck.hello && duck.hello->session_tag != 0 && contains(serving_ducks, duck.name)) return duck.hello->session_tag;
  }
  return 0;
}

std::string engine_trouble(const ObservedEngine& engine) {
  if (engine.died) return fmt::format("the engine's process {} has ended", engine.pid);
  if (!engine.running) return "the engine is not started";
  return "the engine is not ready: " + (engine.reason.empty() ? std::string("it does not answer") : engine.reason);
}

} // namespace

std::string_view to_string(Stage stage) { return kStageNames[static_cast<std::size_t>(stage)]; }

Diagnosis diagnose(const Desired& desired, const Observed& observed, const std::vector<std::string>& serving_ducks) {
  Diagnosis result;
  const std::uint64_t session = engine_session(observed, serving_ducks);
  const bool engine_well = observed.engine.running && observed.engine.healthy;
  // Processes of one machine are as fast as their neighbours let them be.
  const std::map<std::string, std::string> slow =
      desired.kind == DuckKind::Machine ? stragglers(observed) : std::map<std::string, std::string>{};
  std::vector<std::string> lost;
  for (std::size_t i = 0; i < observed.ducks.size(); ++i) {
    const ObservedDuck& duck = observed.ducks[i];
    const bool in_session = contains(serving_ducks, duck.name) && duck.hello && session != 0 &&
                            duck.hello->session_tag == session &&
                            duck.hello->epoch != 0; // 0: it found a damaged slice among those it computes with
    const bool machine = desired.kind == DuckKind::Machine;
    result.ducks.push_back(duck.hello ? diagnose_answering(desired, observed, i, engine_well && in_session)
                           : machine  ? diagnose_silent_machine(duck)
                                      : diagnose_silent(duck));
    if (duck.hello) note_condition(desired, desired.ducks[i], duck, result.ducks.back());
    if (const auto found = slow.find(duck.name); found != slow.end())
      note(result.ducks.back(), found->second,
           "look at its temperature, its power limits in the BIOS and its memory (docs/bios.md)");
    if (contains(serving_ducks, duck.name) && !in_session) lost.push_back(duck.name);
  }
  result.serving = engine_well && lost.empty() && !serving_ducks.empty();
  result.degraded = result.serving && std::any_of(result.ducks.begin(), result.ducks.end(),
                                                  [](const DuckDiagnosis& duck) { return duck.stage != Stage::Serving; });
  if (!result.serving) {
    result.reason = engine_well && !lost.empty() ? fmt::format("the engine has lost {}", fmt::join(lost, ", "))
                                                 : engine_trouble(observed.engine);
    result.next = kRunUp;
  }
  return result;
}

std::optional<Error> booting_left(const Observed& observed) {
  std::vector<std::string> left;
  for (const ObservedDuck& duck : observed.ducks)
    if (duck.boot && duck.boot->under_way) left.push_back(fmt::format("{} ({})", duck.name, boot::to_string(duck.boot->step)));
  if (left.empty()) return std::nullopt;
  return Error{ErrorCode::kPower,
               fmt::format("on the way to their agents, and not to be switched off yet: {}", fmt::join(left, ", ")),
               {},
               "run `ductl down` again when they are up (`ductl status` shows it), or switch them off by their buttons",
               {}};
}

StageHistory note_stages(Diagnosis& diagnosis, const StageHistory& before, WallTime now) {
  StageHistory after;
  for (DuckDiagnosis& duck : diagnosis.ducks) {
    const auto seen = before.find(duck.name);
    duck.since = seen != before.end() && seen->second.stage == duck.stage ? seen->second.since : now;
    after[duck.name] = {duck.stage, *duck.since};
  }
  return after;
}

std::string history_text(const StageHistory& history) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, seen] : history) {
    const auto unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(seen.since.time_since_epoch()).count();
    json[name] = {{"stage", to_string(seen.stage)}, {"since_unix_ms", unix_ms}};
  }
  return json.dump() + "\n";
}

StageHistory parse_history(const std::string& text) {
  StageHistory history;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return history;
  for (const auto& [name, seen] : json.items()) {
    if (!seen.is_object() || !seen.contains("stage") || !seen["stage"].is_string()) continue;
    if (!seen.contains("since_unix_ms") || !seen["since_unix_ms"].is_number_integer()) continue;
    const auto stage = std::find(kStageNames.begin(), kStageNames.end(), seen["stage"].get<std::string>());
    if (stage == kStageNames.end()) continue;
    history[name] = {static_cast<Stage>(stage - kStageNames.begin()),
                     WallTime(std::chrono::milliseconds(seen["since_unix_ms"].get<std::int64_t>()))};
  }
  return history;
}

} // namespace ductl::reconcile
