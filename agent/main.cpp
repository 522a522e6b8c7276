// duck-agent: puts the parts of a duck together, and ends them in order on SIGTERM, SIGINT or a power-off. As the init of a
// netbooted duck (process 1, no options) it brings the machine up before and ends it afterwards.
#include "agent/agent_options.hpp"
#include "agent/bench/bench_command.hpp"
#include "agent/client/control_messages.hpp"
#include "agent/client/flock_key.hpp"
#include "agent/client/process_log.hpp"
#include "agent/control_server.hpp"
#include "agent/health/health_watch.hpp"
#include "agent/host_facts.hpp"
#include "agent/init/duck_init.hpp"
#include "agent/init/kernel_log.hpp"
#include "agent/init/machine.hpp"
#include "agent/kernels/select.hpp"
#include "agent/membership.hpp"
#include "agent/transport/udp_transport.hpp"
#include "inventory/inventory.hpp"
#include "inventory/version.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ductl::agent {

namespace {

constexpr int kTickMs = 1000;
// Idle scrubbing: a small store is seen through once a minute, a large one at a pace that costs a few per cent of a core.
constexpr std::uint64_t kScrubTicks = 60, kScrubBytesMax = 64u << 20;

std::string new_boot_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// Signals that end the agent arrive here instead of at a handler; set before any thread starts, so that all inherit it.
int open_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP); // a local flock outlives the terminal that started it
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  sigdelset(&ends, SIGHUP);
  return ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

void say_ready(const AgentOptions& options, const std::string& line) {
  if (!options.ready_descriptor) return;
  if (::write(*options.ready_descriptor, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    spdlog::warn("nobody reads that this agent is ready");
  ::close(*options.ready_descriptor);
}

// The data plane's thread, ended with its scope.
class ExpertThread {
public:
  explicit ExpertThread(ExpertServer& server) : server_(server), thread_([&server] { server.run(); }) {}
  ~ExpertThread() {
    server_.stop();
    thread_.join();
  }
  ExpertThread(const ExpertThread&) = delete;
  ExpertThread& operator=(const ExpertThread&) = delete;

private:
  ExpertServer& server_;
  std::thread thread_;
};

void scrub(SliceStore& store) {
  for (const weights::SliceId& id : store.scrub(std::min(store.bytes() / kScrubTicks + 1, kScrubBytesMax)))
    spdlog::error("memory of layer {} expert {} slice {} was damaged; it is dropped, and sent again by the next ductl up",
                  id.layer, id.expert, id.index);
}

// Why an agent ends. Asked for from any thread, the first one counts.
class Ending {
public:
  enum class Why { Signal, PowerOff, Reboot, Trouble };

  Ending() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Ending() { ::close(event_); }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  void ask(Why why, const Error& trouble = {}) {
    const std::lock_guard lock(mutex_);
    if (why_) return;
    why_ = why;
    trouble_ = trouble;
    ::eventfd_write(event_, 1);
  }
  [[nodiscard]] int descriptor() const { return event_; }
  [[nodiscard]] Why why() const {
    const std::lock_guard lock(mutex_);
    return why_.value_or(Why::Signal);
  }
  [[nodiscard]] Error trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

private:
  const int event_;
  mutable std::mutex mutex_;
  std::optional<Why> why_;
  Error trouble_;
};

// Until a signal, or what was asked for. Scrubs whenever no round came for a tick.
void wait_for_end(int signals, const Ending& ending, SliceStore& store, const ExpertServerStats& stats,
                  const std::function<void()>& on_tick) {
  std::uint64_t rounds = stats.rounds;
  for (;;) {
    on_tick();
    pollfd ends[] = {{signals, POLLIN, 0}, {ending.descriptor(), POLLIN, 0}};
    const int ready = ::poll(ends, 2, kTickMs);
    if (ready > 0) {
      spdlog::info("ends: {}", ends[1].revents != 0 ? "told to" : "signal");
      return;
    }
    if (ready < 0 && errno != EINTR) return spdlog::error("poll fails, so this agent ends");
    if (std::exchange(rounds, stats.rounds) == stats.rounds) scrub(store);
  }
}

Expected<std::string> flock_key(const AgentOptions& options) {
  return options.key_file ? load_flock_key(*options.key_file) : read_flock_key(*options.key_descriptor);
}

// What differs between an agent of a local flock and one that has the machine.
struct Place {
  Membership& membership;
  health::HealthWatch& health;
  std::optional<OwnMachine> own;
  std::string boot_id;
  std::function<void(std::uint16_t control_port)> on_ready;
  std::function<void()> on_tick = [] {};
};

// The parts of a duck at work, until its end.
Expected<void> serve(const AgentOptions& options, int signals, Ending& ending, const Place& place) {
  UdpOptions udp;
  udp.bind = {options.address, options.data_port};
  const auto transport = open_udp_transport(udp);
  if (!transport) return tl::unexpected(transport.error());
  const auto store = make_slice_store(options.memory_limit_bytes);
  const auto selected = select_kernels();
  if (!selected) return tl::unexpected(selected.error());
  const ExpertKernels& kernels = **selected;
  const ThreadPlan threads =
      plan_threads(core_count(), options.shared_cores.value_or(options.address >> 24 == 127), options.threads);
  ExpertServer expert_server(**transport, *store, kernels, threads);
  ControlServerOptions control;
  control.address = options.address;
  control.port = options.control_port;
  control.data_port = (*transport)->local().port;
  control.boot_id = place.boot_id;
  control.kernels = kernels.name;
  control.threads = threads.threads;
  control.memory_limit_bytes = options.memory_limit_bytes;
  control.log = options.log;
  control.own = place.own;
  const auto control_server = ControlServer::start(control, place.membership, place.health, *store, expert_server,
                                                   [&ending] { ending.ask(Ending::Why::PowerOff); });
  if (!control_server) return tl::unexpected(control_server.error());
  spdlog::info("duck-agent {} ({}) is {} of flock {} at {}, control port {}, data port {}, kernels {}, {}", kVersion, kRevision,
               options.name, options.flock, inventory::to_string(options.address), (*control_server)->port(), control.data_port,
               kernels.name, text(threads));
  const ExpertThread expert_thread(expert_server);
  say_ready(options, ready_text((*control_server)->port(), control.data_port, ::getpid()));
  if (place.on_ready) place.on_ready((*control_server)->port());
  wait_for_end(signals, ending, *store, expert_server.stats(), place.on_tick);
  (*control_server)->stop();
  return {};
}

Expected<void> run(const AgentOptions& options, int signals) {
  if (auto log = start_log(options.log); !log) return log;
  auto key = flock_key(options);
  if (!key) return tl::unexpected(key.error());
  Membership membership(Member{options.name, options.flock, std::move(*key)});
  health::HealthWatch health([] { return health::read_machine(MachineFiles(), ""); }, false, "", kVersion, Clock::now());
  Ending ending;
  return serve(options, signals, ending, {membership, health, {}, new_boot_id(), {}});
}

AgentOptions options_of_init(const init::Booted& booted) {
  const inventory::Ports ports;
  AgentOptions options;
  options.name = inventory::to_string(booted.mac);
  options.flock = "(none yet)";
  options.address = booted.rule.address;
  options.control_port = ports.control;
  options.data_port = ports.data;
  const std::uint64_t available = memory_facts().available_bytes, kept = inventory::machine_reserve(available);
  options.memory_limit_bytes = available > kept ? available - kept : 1; // the rest is the system's: process 1 must not run out
  return options;
}

// The life of a netbooted duck. Ends with the machine, since process 1 may not return.
void run_as_init() {
  const int signals = open_signals();
  const std::string boot_id = new_boot_id();
  const auto init = init::DuckInit::start(boot_id);
  const auto booted = init->boot();
  if (!booted) init->give_up(booted.error());
  Membership membership(booted->rule);
  health::HealthWatch health([interface = booted->interface] { return health::read_machine(MachineFiles(), interface); }, true,
                             init->image(), kVersion, Clock::now());
  health.set_measured(init->measured());
  (void)health.look(Clock::now());
  Ending ending;
  Place place{membership, health, OwnMachine{}, boot_id, {}, [&init] { init->feed_watchdog(); }};
  place.own->mac = inventory::to_string(booted->mac);
  place.own->image = init->image();
  place.own->log = init::kernel_log_tail;
  place.own->set_clock = init::set_wall_clock;
  place.own->reboot = [&ending] { ending.ask(Ending::Why::Reboot); };
  place.on_ready = [&](std::uint16_t port) {
    init->keep(health, membership, port, [&ending](const Error& e) { ending.ask(Ending::Why::Trouble, e); });
  };
  if (auto served = serve(options_of_init(*booted), signals, ending, place); !served) init->give_up(served.error());
  if (ending.why() == Ending::Why::Trouble) init->give_up(ending.trouble());
  init->end(ending.why() == Ending::Why::PowerOff);
}

// `duck-agent check --ready-fd N`: what an agent started now, in this environment, would refuse before it listens. ductl asks
// before it stops anything.
int check_command(std::span<const std::string> words) {
  AgentOptions options;
  int descriptor = -1;
  if (words.size() == 2 && words[0] == "--ready-fd" && (descriptor = std::atoi(words[1].c_str())) > 2)
    options.ready_descriptor = descriptor;
  const auto kernels = select_kernels();
  say_ready(options, kernels ? ready_text(0, 0, ::getpid()) : not_ready_text(kernels.error()));
  if (!kernels) fmt::print(stderr, "{}\n", kernels.error().text());
  return kernels ? 0 : 1;
}

int main_of_agent(int argc, char** argv) {
  if (init::is_init(argc, argv)) {
    run_as_init();
    return 1; // not reached
  }
  const auto options = parse_agent_options(argc, argv);
  if (!options) {
    fmt::print(stderr, "{}\n", options.error().text());
    return 64;
  }
  if (options->help || options->version) {
    fmt::print("{}", options->help ? agent_usage() : fmt::format("duck-agent {} ({})\n", kVersion, kRevision));
    return 0;
  }
  const int signals = open_signals();
  if (auto ran = run(*options, signals); !ran) {
    spdlog::error("{}", ran.error().text());
    say_ready(*options, not_ready_text(ran.error()));
    fmt::print(stderr, "{}\n", ran.error().text());
    return 1;
  }
  return 0;
}

} // namespace

} // namespace ductl::agent

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "bench") return ductl::agent::bench::run_bench(std::span(words).subspan(1));
  if (!words.empty() && words.front() == "check") return ductl::agent::check_command(std::span(words).subspan(1));
  return ductl::agent::main_of_agent(argc, argv);
}
