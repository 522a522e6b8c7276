#include "ductl/reconcile/local_flock.hpp"

#include "agent/client/flock_key.hpp"
#include "ductl/boot/boot_desk.hpp"
#include "ductl/power/launch.hpp"
#include "ductl/power/process_driver.hpp"
#include "ductl/power/wake_on_lan.hpp"
#include "ductl/reconcile/engine_probe.hpp"
#include "ductl/reconcile/machines.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <thread>

namespace ductl::reconcile {
namespace {

constexpr std::size_t kObserversMax = 16;
constexpr std::chrono::milliseconds kHealthLimit{2000};
constexpr std::chrono::milliseconds kEngineEndGrace{5000};
constexpr std::chrono::milliseconds kEngineReadyLimit{600'000}; // a big checkpoint on a slow disk

std::int64_t unix_ms_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

} // namespace

struct LocalFlock::Impl final : FlockHands {
  inventory::Flock flock;
  agent::StateFolder state;
  std::string key = {}; // "" when there is none yet: enough for looking
  std::unique_ptr<power::PowerDriver> power = {};
  std::unique_ptr<Machines> machines = {}; // null where ducks are processes
  const FlockModel* model = nullptr;
  bool stats = false;
  std::function<void(const std::string&, const agent::FillProgress&)> on_fill = [](const std::string&,
                                                                                   const agent::FillProgress&) {};
  std::function<bool()> interrupted = [] { return false; };

  Impl(inventory::Flock f, agent::StateFolder s) : flock(std::move(f)), state(std::move(s)) {
    if (auto known = agent::load_flock_key(state.key())) key = std::move(*known);
    make_driver();
  }

  void make_driver() {
    if (!inventory::has_local_ducks(flock)) {
      power = power::make_wake_on_lan_driver(flock.ports);
      machines = std::make_unique<Machines>(flock, state, key);
      return;
    }
    power = power::make_process_driver({.agent_program = power::sibling_program("duck-agent").value_or("duck-agent"),
                                        .state = state,
                                        .flock = flock.name,
                                        .flock_key = key,
                                        .ports = flock.agent_ports,
                                        .threads = flock.agent_threads,
                                        .ready_limit = std::chrono::seconds(flock.limits.boot_timeout_s)});
  }

  [[nodiscard]] agent::ControlClient client(const inventory::Duck& duck, std::uint16_t control_port) const {
    return {duck.name, agent::Endpoint{duck.address, control_port}, key,
            std::chrono::milliseconds(flock.limits.control_timeout_ms),
            machines ? "by GET /v1/log, or on its screen" : state.log(duck.name).string()};
  }

  [[nodiscard]] int number_of(const std::string& name) const {
    const auto at = std::find_if(flock.ducks.begin(), flock.ducks.end(), [&](const auto& duck) { return duck.name == name; });
    return at == flock.ducks.end() ? -1 : static_cast<int>(at - flock.ducks.begin());
  }

  // Names of all processes that have a run file, the engine's apart.
  [[nodiscard]] std::vector<std::string> recorded() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(state.run(kEngineProcess).parent_path(), error)) {
      if (entry.path().extension() == ".json" && entry.path().stem() != kEngineProcess) names.push_back(entry.path().stem());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] std::vector<ObservedLeaver> observe_leavers() const {
    std::vector<ObservedLeaver> leavers;
    for (const std::string& name : recorded()) {
      if (number_of(name) >= 0) continue;
      const auto record = power::load_record(state.run(name));
      if (record && power::is_running(*record)) leavers.push_back({.name = name, .pid = record->pid});
    }
    return leavers;
  }

  // A client takes no answer under another name. Where an agent of this flock has the duck's address (its old self, before it was
  // renamed, or one that it exchanged addresses with), that one answers to its own.
  [[nodiscard]] std::optional<agent::Hello> hello_of_other(const inventory::Duck& duck, std::uint16_t control_port) const {
    for (const std::string& name : recorded()) {
      const auto record = power::load_record(state.run(name));
      if (name == duck.name || !record || !power::is_running(*record)) continue;
      inventory::Duck other = duck;
      other.name = name;
      if (auto hello = client(other, control_port).hello()) return std::move(*hello);
    }
    return std::nullopt;
  }

  [[nodiscard]] ObservedDuck observe_duck(std::size_t number, bool compare) {
    const inventory::Duck& duck = flock.ducks[number];
    ObservedDuck seen{.name = duck.name, .seen = Clock::now(), .power = power->state(duck), .address = duck.address};
    seen.control_port = flock.agent_ports.control != 0 ? flock.agent_ports.control : seen.power.control_port;
    if (seen.control_port == 0) {
      seen.hello_error = Error{ErrorCode::kAgentUnreachable, "its control port is not known", duck.name, {}};
      return seen;
    }
    agent::ControlClient agent = client(duck, seen.control_port);
    auto hello = machines ? agent.hello_of_any() : agent.hello(); // a machine keeps the name of its adoption
    if (!hello && hello.error().code == ErrorCode::kAgentRefused) {
      if (auto other = hello_of_other(duck, seen.control_port)) hello = std::move(*other);
    }
    if (!hello) {
      seen.hello_error = std::move(hello.error());
      if (machines) seen.boot = observe_boot(number);
      return seen;
    }
    seen.hello = std::move(*hello);
    const bool ours = seen.power.power != power::Power::Off && seen.hello->flock == flock.name && seen.hello->name == duck.name;
    if (machines || (ours && stats)) {
      if (auto health = agent.health(unix_ms_now())) seen.health = std::move(*health);
    }
    if (!ours) return seen;
    if (compare && model != nullptr) {
      auto fill = agent::plan_fill(agent, *seen.hello, model->manifest, model->placement, static_cast<int>(number));
      if (fill)
        seen.fill = std::move(*fill);
      else
        seen.fill_error = std::move(fill.error());
    }
    if (stats) {
      if (auto counts = agent.stats()) seen.stats = *counts;
    }
    return seen;
  }

  [[nodiscard]] ObservedBoot observe_boot(std::size_t number) const {
    const boot::BootStories stories = boot::load_stories(state, flock);
    const boot::BootPatience patience = boot::patience_of(flock.limits);
    const auto now = std::chrono::system_clock::now();
    ObservedBoot seen{.step = stories.ducks[number].step, .verdict = boot::diagnose_boot(stories, number, flock, patience, now)};
    seen.under_way = boot::is_under_way(stories.ducks[number], seen.verdict, patience, now);
    return seen;
  }

  [[nodiscard]] ObservedEngine observe_engine() const {
    ObservedEngine seen{.seen = Clock::now(), .serving_text = file_text(state.serving())};
    const auto record = power::load_record(state.run(kEngineProcess));
    if (!record) return seen;
    seen.pid = record->pid;
    seen.running = power::is_running(*record);
    seen.died = !seen.running;
    seen.api_port = record->api_port;
    if (!seen.running) return seen;
    seen.private_bytes = power::private_bytes(*record);
    const auto program = power::sibling_program(kEngineProcess);
    seen.outdated = program && power::is_outdated(*record, *program);
    if (record->api_port == 0) {
      seen.reason = "it was not ready when its start was given up";
      return seen;
    }
    EngineHealth health = engine_health(flock.engine.api_address, record->api_port, kHealthLimit);
    seen.healthy = health.healthy;
    seen.reason = std::move(health.reason);
    return seen;
  }

  [[nodiscard]] Observed observe_flock(bool compare) {
    Observed observed;
    observed.ducks.resize(flock.ducks.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < flock.ducks.size(); i = next++) observed.ducks[i] = observe_duck(i, compare);
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < std::min(flock.ducks.size(), kObserversMax); ++i) threads.emplace_back(work);
      work();
    }
    observed.engine = observe_engine();
    observed.leavers = observe_leavers();
    return observed;
  }

  Observed observe(const Desired&) override { return observe_flock(true); }

  Expected<std::uint64_t> act(const Desired& desired, const Action& action) override {
    const auto nothing_sent = [](Expected<void> done) -> Expected<std::uint64_t> {
      if (!done) return tl::unexpected(std::move(done.error()));
      return std::uint64_t{0};
    };
    const int number = number_of(action.duck);
    switch (action.kind) {
    case ActionKind::StopEngine: return nothing_sent(stop_engine());
    case ActionKind::StartEngine:
    case ActionKind::RestartEngine: return nothing_sent(start_engine(desired));
    case ActionKind::StartAgent: return nothing_sent(power->on(flock.ducks[static_cast<std::size_t>(number)]));
    case ActionKind::StopAgent: return nothing_sent(stop_agent(action.duck, number));
    case ActionKind::RestartAgent: {
      const inventory::Duck& duck = flock.ducks[static_cast<std::size_t>(number)];
      return nothing_sent(power->off(duck).and_then([&] { return power->on(duck); }));
    }
    case ActionKind::Fill: return fill(number);
    case ActionKind::Wake:
    case ActionKind::Reboot:
    case ActionKind::Adopt:
    case ActionKind::CheckHealth:
    case ActionKind::PowerOff: return nothing_sent(machines->act(action, static_cast<std::size_t>(number), desired.image));
    }
    return fail(ErrorCode::kInternal, "an unknown action");
  }

  // Of a duck that has left the inventory only the name is known: that of its run file.
  Expected<void> stop_agent(const std::string& name, int number) {
    if (number >= 0) return power->off(flock.ducks[static_cast<std::size_t>(number)]);
    inventory::Duck leaver;
    leaver.name = name;
    return power->off(leaver);
  }

  // Compares again: a duck that was started a moment ago holds what its hello says, not what the plan assumed.
  Expected<std::uint64_t> fill(int number) {
    const inventory::Duck& duck = flock.ducks[static_cast<std::size_t>(number)];
    const std::uint16_t port = flock.agent_ports.control != 0 ? flock.agent_ports.control : power->state(duck).control_port;
    agent::ControlClient agent = client(duck, port);
    std::uint64_t sent = 0;
    const auto progress = [&](const agent::FillProgress& now) {
      sent = now.bytes_sent;
      on_fill(duck.name, now);
    };
    const auto filled = agent.hello().and_then(
        [&](const agent::Hello& hello) { return agent::plan_fill(agent, hello, model->manifest, model->placement, number); });
    Expected<void> done = {};
    if (!filled) {
      done = tl::unexpected(filled.error());
    } else if (!filled->empty()) {
      done =
          agent::fill_duck(agent, *filled, *model->checkpoint, model->manifest, model->placement, number, progress, interrupted);
    }
    if (!done) return tl::unexpected(fill_error(duck, done.error()));
    return sent;
  }

  // A duck that dies while it is filled is an unreachable agent; say which process and which log.
  [[nodiscard]] Error fill_error(const inventory::Duck& duck, Error error) {
    if (error.code == ErrorCode::kAgentUnreachable && power->state(duck).died) {
      error = Error{ErrorCode::kDuckDied, fmt::format("duck {} ended while it was being filled", duck.name),
                    state.log(duck.name).string(), "read the log, then run `ductl up` again: it goes on where it stopped"};
    }
    return error;
  }

  Expected<void> stop_engine() {
    const std::filesystem::path run_file = state.run(kEngineProcess);
    if (const auto record = power::load_record(run_file)) {
      if (auto stopped = power::stop_process(*record, kEngineEndGrace); !stopped) return stopped;
    }
    power::remove_record(run_file);
    return {};
  }

  Expected<void> start_engine(const Desired& desired) {
    const agent::Serving serving = serving_with_ports(desired, observe_flock(false));
    if (file_text(state.serving()) != agent::serving_text(serving)) {
      if (auto saved = agent::save_serving(serving, state.serving()); !saved) return saved;
    }
    const auto program = power::sibling_program(kEngineProcess);
    if (!program) return tl::unexpected(program.error());
    const std::filesystem::path log = state.log(kEngineProcess), run_file = state.run(kEngineProcess);
    const std::filesystem::path output = std::filesystem::path(log).replace_extension(".out");
    const auto launched = power::launch(
        {.program = *program,
         .arguments = {"serve", "--state", state.root.string(), "--ready-fd", std::to_string(power::kReadyDescriptor)},
         .output = output});
    if (!launched) return tl::unexpected(launched.error());
    power::ProcessRecord record = launched->record;
    Expected<void> saved = power::save_record(record, run_file);
    if (saved) {
      const auto ready =
          power::await_ready(launched->ready, kEngineReadyLimit, ErrorCode::kEngineStart, "the engine", log, output, interrupted);
      if (ready) {
        record.api_port = ready->api_port;
        return power::save_record(record, run_file);
      }
      saved = tl::unexpected(ready.error());
    }
    (void)power::stop_process(record, kEngineEndGrace); // the first error is the one to tell
    power::remove_record(run_file);
    return saved;
  }
};

LocalFlock::LocalFlock(inventory::Flock flock, agent::StateFolder folder)
    : impl_(std::make_unique<Impl>(std::move(flock), std::move(folder))) {}
LocalFlock::~LocalFlock() = default;

Expected<void> LocalFlock::prepare() {
  if (auto made = agent::make_state_folder(impl_->state); !made) return made;
  auto key = agent::obtain_flock_key(impl_->state.key());
  if (!key) return tl::unexpected(key.error());
  impl_->key = std::move(*key);
  impl_->make_driver();
  return {};
}

void LocalFlock::use_model(const FlockModel* model) { impl_->model = model; }
void LocalFlock::ask_for_stats(bool stats) { impl_->stats = stats; }
void LocalFlock::on_fill(std::function<void(const std::string&, const agent::FillProgress&)> callback) {
  impl_->on_fill = std::move(callback);
}
void LocalFlock::on_boot(std::function<void(const std::string&, const std::string&)> callback) {
  if (impl_->machines) impl_->machines->on_boot = std::move(callback);
}
void LocalFlock::on_interrupt(std::function<bool()> interrupted) {
  impl_->interrupted = std::move(interrupted);
  if (impl_->machines) impl_->machines->interrupted = impl_->interrupted;
}
Expected<void> LocalFlock::check_starts(const Plan& plan) const {
  if (impl_->machines) return impl_->machines->check(plan);
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::StartAgent && action.kind != ActionKind::RestartAgent) continue;
    const int number = impl_->number_of(action.duck);
    if (number < 0) continue;
    if (auto ok = impl_->power->check(impl_->flock.ducks[static_cast<std::size_t>(number)]); !ok) return ok;
  }
  return {};
}

FlockHands& LocalFlock::hands() { return *impl_; }
const inventory::Flock& LocalFlock::flock() const { return impl_->flock; }
const agent::StateFolder& LocalFlock::state() const { return impl_->state; }

std::vector<std::string> LocalFlock::serving_ducks() const {
  std::vector<std::string> names;
  if (const auto serving = agent::load_serving(impl_->state.serving())) {
    for (const agent::ServingDuck& duck : serving->ducks) names.push_back(duck.name);
  }
  return names;
}

std::uint64_t LocalFlock::private_bytes() const {
  std::uint64_t bytes = 0;
  const auto add = [&](const std::string& process) {
    if (const auto record = power::load_record(impl_->state.run(process))) bytes += power::private_bytes(*record);
  };
  for (const std::string& name : impl_->recorded()) add(name);
  add(kEngineProcess);
  return bytes;
}

void LocalFlock::forget_running() {
  std::error_code ignored; // what is not there need not go
  std::filesystem::remove(impl_->state.serving(), ignored);
  for (const std::string& name : impl_->recorded()) std::filesystem::remove(impl_->state.run(name), ignored);
  std::filesystem::remove(impl_->state.run(kEngineProcess), ignored);
}

} // namespace ductl::reconcile
