// duck-agent: puts the parts of a duck together, and ends them in order on SIGTERM, SIGINT or a power-off.
#include "agent/agent_options.hpp"
#include "agent/bench/bench_command.hpp"
#include "agent/client/control_messages.hpp"
#include "agent/client/flock_key.hpp"
#include "agent/client/process_log.hpp"
#include "agent/control_server.hpp"
#include "agent/host_facts.hpp"
#include "agent/kernels/select.hpp"
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

// Until a signal or the power-off event. Scrubs whenever no round came for a tick.
void wait_for_end(int signals, int power_off, SliceStore& store, const ExpertServerStats& stats) {
  std::uint64_t rounds = stats.rounds;
  for (;;) {
    pollfd ends[] = {{signals, POLLIN, 0}, {power_off, POLLIN, 0}};
    const int ready = ::poll(ends, 2, kTickMs);
    if (ready > 0) {
      spdlog::info("ends: {}", ends[1].revents != 0 ? "powered off" : "signal");
      return;
    }
    if (ready < 0 && errno != EINTR) return spdlog::error("poll fails, so this agent ends");
    if (std::exchange(rounds, stats.rounds) == stats.rounds) scrub(store);
  }
}

Expected<std::string> flock_key(const AgentOptions& options) {
  return options.key_file ? load_flock_key(*options.key_file) : read_flock_key(*options.key_descriptor);
}

Expected<void> run(const AgentOptions& options, int signals) {
  if (auto log = start_log(options.log); !log) return log;
  const auto key = flock_key(options);
  if (!key) return tl::unexpected(key.error());
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
  const int power_off = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ControlServerOptions control;
  control.name = options.name;
  control.flock = options.flock;
  control.key = *key;
  control.address = options.address;
  control.port = options.control_port;
  control.data_port = (*transport)->local().port;
  control.boot_id = new_boot_id();
  control.kernels = kernels.name;
  control.threads = threads.threads;
  control.memory_limit_bytes = options.memory_limit_bytes;
  control.log = options.log;
  const auto control_server =
      ControlServer::start(control, *store, expert_server, [power_off] { ::eventfd_write(power_off, 1); });
  if (!control_server) return tl::unexpected(control_server.error());
  spdlog::info("duck-agent {} ({}) is {} of flock {} at {}, control port {}, data port {}, kernels {}, {}", kVersion, kRevision,
               options.name, options.flock, inventory::to_string(options.address), (*control_server)->port(), control.data_port,
               kernels.name, text(threads));
  const ExpertThread expert_thread(expert_server);
  say_ready(options, ready_text((*control_server)->port(), control.data_port, ::getpid()));
  wait_for_end(signals, power_off, *store, expert_server.stats());
  (*control_server)->stop();
  ::close(power_off);
  return {};
}

// `duck-agent check --ready-fd N`: what an agent started now, in this environment, would refuse before it listens. ductl asks
// before it stops anything.
int check(std::span<const std::string> words) {
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
  if (!words.empty() && words.front() == "check") return ductl::agent::check(std::span(words).subspan(1));
  return ductl::agent::main_of_agent(argc, argv);
}
