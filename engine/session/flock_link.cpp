#include "engine/session/flock_link.hpp"

#include "agent/transport/udp_transport.hpp"

#include <cassert>
#include <cerrno>
#include <fmt/format.h>
#include <sys/random.h>

namespace ductl::engine {
namespace {

constexpr const char* kRunUp = "run `ductl up`, which fills the ducks and starts the engine again";

Expected<void> check_hello(const agent::Serving& serving, const agent::ServingDuck& duck, const std::string& model_id,
                           const agent::Hello& hello) {
  const std::string place = fmt::format("duck {}", duck.name);
  if (hello.protocol != agent::kControlProtocol) {
    return fail(ErrorCode::kAgentVersion,
                fmt::format("the agent is version {} and speaks control protocol {}; this engine speaks {}", hello.version,
                            hello.protocol, agent::kControlProtocol),
                place, "use duck-agent and duck-engine of the same build: `ductl down`, then `ductl up`");
  }
  if (hello.flock != serving.flock) {
    return fail(ErrorCode::kFlockEpoch,
                fmt::format("the agent there belongs to flock \"{}\", not to \"{}\"", hello.flock, serving.flock), place,
                "two flocks share an address: give one of them other addresses or ports in its inventory");
  }
  if (hello.model_id != model_id) {
    return fail(ErrorCode::kFlockEpoch,
                fmt::format("the agent holds model {}, the engine expects {}", hello.model_id.empty() ? "none" : hello.model_id,
                            model_id),
                place, kRunUp);
  }
  if (hello.epoch != serving.epoch) {
    return fail(ErrorCode::kFlockEpoch,
                fmt::format("the agent's active epoch is {}, the engine expects {}", hello.epoch, serving.epoch), place, kRunUp);
  }
  return {};
}

std::string log_of(const agent::StateFolder& state, const std::string& duck) {
  return state.root.empty() ? std::string() : state.log(duck).string();
}

// One transport per inventory port, on the host's own address in it.
Expected<std::vector<std::unique_ptr<agent::Transport>>> open_transports(const agent::Serving& serving) {
  std::vector<std::unique_ptr<agent::Transport>> transports;
  for (const inventory::Port& port : serving.ports) {
    agent::UdpOptions options;
    options.bind = {port.address, 0};
    auto transport = agent::open_udp_transport(options);
    if (!transport) return tl::unexpected(transport.error());
    transports.push_back(std::move(*transport));
  }
  return transports;
}

} // namespace

Expected<void> check_hellos(const agent::Serving& serving, const std::string& model_id, std::span<const agent::Hello> hellos) {
  assert(hellos.size() == serving.ducks.size());
  std::uint64_t active = 0;
  for (std::size_t i = 0; i < hellos.size(); ++i) {
    if (auto checked = check_hello(serving, serving.ducks[i], model_id, hellos[i]); !checked) return checked;
    active += hellos[i].slices_active;
  }
  if (active == serving.slices_total) return {};
  return fail(ErrorCode::kFlockEpoch,
              fmt::format("the ducks' active slices add up to {}, the model has {}", active, serving.slices_total),
              fmt::format("flock {}", serving.flock), kRunUp);
}

Expected<void> check_engine_settings(const inventory::Engine& engine) {
  const auto refuse = [](const char* setting, const char* why, const char* next) {
    return fail(ErrorCode::kEngineStart, fmt::format("{} is not built into this duck-engine{}", setting, why), "[engine]", next);
  };
  if (engine.attention == inventory::AttentionKind::Cuda)
    return refuse("attention = \"cuda\"", "", "set attention = \"cpu\" or \"auto\"");
  if (engine.transport == inventory::TransportKind::Dpdk) return refuse("transport = \"dpdk\"", "", "set transport = \"udp\"");
  return {};
}

std::uint64_t new_session_tag() {
  std::uint64_t tag = 0;
  while (tag == 0) {
    const ssize_t got = ::getrandom(&tag, sizeof tag, 0);
    if (got != sizeof tag) {
      assert(got < 0 && errno == EINTR); // 8 bytes come whole or not at all
      tag = 0;
    }
  }
  return tag;
}

Expected<std::unique_ptr<FlockFfn>> join_flock(const agent::Serving& serving, const weights::Manifest& manifest,
                                               const weights::ModelConfig& config, const FlockLinkOptions& options) {
  const auto stage = [&](const std::string& text) {
    if (options.on_stage) options.on_stage(text);
  };
  const std::chrono::milliseconds timeout(serving.limits.control_timeout_ms);
  std::vector<agent::ControlClient> clients;
  std::vector<agent::Hello> hellos;
  clients.reserve(serving.ducks.size());
  for (const agent::ServingDuck& duck : serving.ducks) {
    stage(fmt::format("asking the ducks ({}/{})", clients.size() + 1, serving.ducks.size()));
    clients.emplace_back(duck.name, agent::Endpoint{duck.address, duck.control_port}, options.key, timeout,
                         log_of(options.state, duck.name));
    auto hello = clients.back().hello();
    if (!hello) return tl::unexpected(hello.error());
    hellos.push_back(std::move(*hello));
  }
  if (auto checked = check_hellos(serving, manifest.model_id, hellos); !checked) return tl::unexpected(checked.error());

  FlockFfnOptions flock;
  flock.session_tag = options.session_tag;
  flock.epoch = serving.epoch;
  flock.bf16_hidden = options.bf16_hidden;
  flock.compact_reply = options.compact_reply;
  flock.dead_after = std::chrono::milliseconds(serving.limits.dead_after_ms);
  auto transports = open_transports(serving);
  if (!transports) return tl::unexpected(transports.error());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    stage(fmt::format("starting the data sessions ({}/{})", i + 1, clients.size()));
    const auto number = static_cast<std::uint16_t>(i);
    if (auto started =
            clients[i].start_session({options.session_tag, serving.epoch, number, options.bf16_hidden, options.compact_reply});
        !started) {
      return tl::unexpected(started.error());
    }
    const agent::ServingDuck& duck = serving.ducks[i];
    // A kernel-chosen data port is only known to the agent itself.
    const std::uint16_t data_port = hellos[i].data_port != 0 ? hellos[i].data_port : duck.data_port;
    flock.ducks.push_back({duck.name, duck.port_index, {duck.address, data_port}, log_of(options.state, duck.name)});
  }
  return make_flock_ffn(flock, manifest, config, std::move(*transports));
}

} // namespace ductl::engine
