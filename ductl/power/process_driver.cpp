#include "ductl/power/process_driver.hpp"

#include "ductl/power/launch.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::power {
namespace {

constexpr std::chrono::milliseconds kEndGrace{3000}, kCheckLimit{30'000};

// Why a socket cannot be bound there (errno), found by binding one; 0 = it can, or nobody can say.
int bind_fault(inventory::Ipv4 address, int type, std::uint16_t port) {
  const int fd = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  const int yes = 1; // as the agent does for its listener: connections of a former one may linger
  if (type == SOCK_STREAM) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(address);
  name.sin_port = htons(port);
  const int fault = ::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
  ::close(fd);
  return fault;
}

class ProcessDriver final : public PowerDriver {
public:
  explicit ProcessDriver(ProcessDriverOptions options) : options_(std::move(options)) {}

  Expected<void> check(const inventory::Duck& duck) override {
    if (const int cause = bind_fault(duck.address, SOCK_DGRAM, 0); cause != 0) {
      return fail(ErrorCode::kPower,
                  fmt::format("duck {} cannot run at {}: {}", duck.name, inventory::to_string(duck.address),
                              cause == EADDRNOTAVAIL ? "no interface of this machine has that address" : std::strerror(cause)),
                  "duck " + duck.name, "correct its address in the inventory; a local duck's is usually one of 127.0.0.0/8");
    }
    if (auto ok = check_program(); !ok) return ok;
    for (const auto& [type, port] :
         {std::pair{SOCK_STREAM, options_.ports.control}, std::pair{SOCK_DGRAM, options_.ports.data}}) {
      if (bind_fault(duck.address, type, port) != EADDRINUSE || is_ours(duck.address, type, port)) continue;
      return fail(ErrorCode::kAddressInUse,
                  fmt::format("another program has {} port {} of {}", type == SOCK_STREAM ? "TCP" : "UDP", port,
                              inventory::to_string(duck.address)),
                  "duck " + duck.name, "stop that program, or change agent.control_port or agent.data_port in the inventory");
    }
    return {};
  }

  Expected<void> on(const inventory::Duck& duck) override {
    const std::filesystem::path run_file = options_.state.run(duck.name);
    if (const auto record = load_record(run_file); record && is_running(*record)) return {};
    auto launched = launch(spec(duck));
    if (!launched) return tl::unexpected(launched.error());
    ProcessRecord record = launched->record;
    record.address = duck.address;
    if (auto saved = save_record(record, run_file); !saved) {
      (void)stop_process(record, kEndGrace); // the first error is the one to tell
      return saved;
    }
    const auto ready = await_ready(launched->ready, options_.ready_limit, ErrorCode::kPower, "duck " + duck.name,
                                   options_.state.log(duck.name), output(duck), [] { return false; });
    if (!ready) {
      (void)stop_process(record, kEndGrace);
      remove_record(run_file);
      return tl::unexpected(ready.error());
    }
    record.control_port = ready->control_port;
    record.data_port = ready->data_port;
    return save_record(record, run_file);
  }

  Expected<void> off(const inventory::Duck& duck) override {
    const std::filesystem::path run_file = options_.state.run(duck.name);
    if (const auto record = load_record(run_file)) {
      if (auto stopped = stop_process(*record, kEndGrace); !stopped) return stopped;
    }
    remove_record(run_file);
    return {};
  }

  PowerState state(const inventory::Duck& duck) override {
    const auto record = load_record(options_.state.run(duck.name));
    if (!record) return {.power = Power::Off};
    if (!is_running(*record)) return {.power = Power::Off, .died = true, .pid = record->pid};
    return {.power = Power::On,
            .outdated = is_outdated(*record, options_.agent_program),
            .pid = record->pid,
            .private_bytes = private_bytes(*record),
            .address = record->address,
            .control_port = record->control_port,
            .data_port = record->data_port,
            .since = std::chrono::system_clock::time_point(std::chrono::milliseconds(record->started_unix_ms))};
  }

private:
  // What the agent's program itself refuses in this environment. All ducks run the same: it is asked once.
  [[nodiscard]] Expected<void> check_program() {
    if (program_checked_) return *program_checked_;
    const std::filesystem::path output = options_.state.root / "log" / "duck-agent.check.out";
    const auto launched = launch({.program = options_.agent_program,
                                  .arguments = {"check", "--ready-fd", std::to_string(kReadyDescriptor)},
                                  .output = output});
    if (!launched) return tl::unexpected(launched.error());
    const auto ready =
        await_ready(launched->ready, kCheckLimit, ErrorCode::kPower, "the agent's check", output, output, [] { return false; });
    (void)stop_process(launched->record, kEndGrace); // it ends by itself; only one that hangs is stopped
    std::error_code ignored;
    if (ready) std::filesystem::remove(output, ignored); // empty
    program_checked_ = ready.map([](const auto&) {});
    return *program_checked_;
  }

  // Held by an agent of this flock that runs, by its run file; one that was not yet ready when its ductl was killed may hold any.
  [[nodiscard]] bool is_ours(inventory::Ipv4 address, int type, std::uint16_t port) const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(options_.state.root / "run", error)) {
      const auto record = load_record(entry.path());
      if (!record || !is_running(*record) || record->address != address) continue;
      const std::uint16_t held = type == SOCK_STREAM ? record->control_port : record->data_port;
      if (held == port || held == 0) return true;
    }
    return false;
  }

  [[nodiscard]] std::filesystem::path output(const inventory::Duck& duck) const {
    return options_.state.log(duck.name).replace_extension(".out");
  }

  [[nodiscard]] LaunchSpec spec(const inventory::Duck& duck) const {
    LaunchSpec spec{.program = options_.agent_program,
                    .arguments = {"--name", duck.name, "--flock", options_.flock, "--address", inventory::to_string(duck.address),
                                  "--control-port", std::to_string(options_.ports.control), "--data-port",
                                  std::to_string(options_.ports.data), "--key-fd", std::to_string(kSecretDescriptor), "--log",
                                  options_.state.log(duck.name).string(), "--ready-fd", std::to_string(kReadyDescriptor)},
                    .secret = options_.flock_key,
                    .output = output(duck)};
    if (duck.memory_bytes != 0) {
      spec.arguments.insert(spec.arguments.end(), {"--memory-limit", std::to_string(duck.memory_bytes)});
    }
    if (options_.threads != 0) spec.arguments.insert(spec.arguments.end(), {"--threads", std::to_string(options_.threads)});
    return spec;
  }

  ProcessDriverOptions options_;
  std::optional<Expected<void>> program_checked_;
};

} // namespace

std::unique_ptr<PowerDriver> make_process_driver(ProcessDriverOptions options) {
  return std::make_unique<ProcessDriver>(std::move(options));
}

} // namespace ductl::power
