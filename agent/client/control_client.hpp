// The host's side of an agent's control plane: HTTP/1.1 + JSON over libcurl (docs/control.md).
//
// One client per duck and thread; it keeps its connection. Every call blocks for at most its timeout and returns what the agent
// said; an agent that cannot be reached is kAgentUnreachable, one that says no is kAgentRefused with its own words, one of
// another protocol version kAgentVersion. The flock key goes in the Authorization header and nowhere else.
#pragma once

#include "agent/client/adopt_message.hpp"
#include "agent/client/health_message.hpp"
#include "agent/store/slice_store.hpp"
#include "agent/transport/transport.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace ductl::agent {

inline constexpr int kControlProtocol = 1; // raised when a verb changes its meaning

struct Hello {
  std::string name, flock, version; // version of the program
  int protocol = 0;
  std::string boot_id; // new with every agent start
  int pid = 0;
  std::uint64_t memory_bytes = 0, memory_available_bytes = 0;
  int cores = 0;
  std::string kernels;          // "avx2-128"
  int threads = 0;              // that compute
  std::string model_id, format; // format of its slices: "fp9", "e4m3"; both "" without a model
  std::uint32_t epoch = 0;      // active; 0 = none
  std::uint64_t slices_held = 0, slices_active = 0, slice_bytes = 0;
  std::uint64_t session_tag = 0;
  std::uint16_t data_port = 0;
  std::uint64_t uptime_ms = 0;
  // Of a netbooted duck. One that nobody has adopted yet has no name and no flock, and takes no other verb that needs a key.
  bool adopted = true;
  std::string mac, image; // "" where the agent is no duck's init
};

struct AgentStats {
  std::uint64_t rounds = 0, slices = 0, frames_in = 0, frames_out = 0, frames_dropped = 0, frames_corrupt = 0, frames_foreign = 0,
                nacks_sent = 0, nacks_received = 0, refusals = 0, compute_ns = 0;
};

struct OutgoingSlice {
  weights::SliceId id;
  weights::SliceDigest digest = 0;
  std::span<const std::byte> bytes;
};

// How the data plane speaks from now on.
struct SessionMessage {
  std::uint64_t tag = 0; // never 0
  std::uint32_t epoch = 0;
  std::uint16_t duck = 0; // its number on the wire
  bool bf16_hidden = false, compact_reply = false;
};

class ControlClient {
public:
  // `log_hint` says in errors where the agent's log is; without it they name the file inside the state folder.
  ControlClient(std::string duck_name, Endpoint control, std::string flock_key, std::chrono::milliseconds timeout,
                std::string log_hint = {});
  ~ControlClient();
  ControlClient(ControlClient&&) noexcept;
  ControlClient& operator=(ControlClient&&) noexcept;

  [[nodiscard]] Expected<Hello> hello();                       // session_tag is 0 when the key is not this agent's
  [[nodiscard]] Expected<Hello> hello_of_any();                // hello() of whatever name and flock answers there
  [[nodiscard]] Expected<Health> health(std::int64_t time_ms); // the host's clock, since 1970, which the duck's is compared with
  // Takes a duck into a flock that has no key yet (hello().adopted is false). Refused by one that has.
  [[nodiscard]] Expected<void> adopt(const Adoption& adoption);
  [[nodiscard]] Expected<AgentStats> stats();
  [[nodiscard]] Expected<void> set_model(const StoreModel& model);
  [[nodiscard]] Expected<std::vector<weights::SliceDigest>> layer_digests(); // combined_digest of each layer's held slices
  [[nodiscard]] Expected<std::vector<weights::HeldSlice>> list(int layer);
  [[nodiscard]] Expected<void> put(std::span<const OutgoingSlice> slices); // one body; keep it under 64 MiB
  [[nodiscard]] Expected<void> drop(std::span<const weights::SliceId> ids);
  [[nodiscard]] Expected<void> activate(std::uint32_t epoch, std::span<const weights::SliceId> ids);
  [[nodiscard]] Expected<void> start_session(const SessionMessage& session);
  [[nodiscard]] Expected<void> power_off();                                        // the agent ends (a real duck switches off)
  [[nodiscard]] Expected<void> reboot();                                           // refused where the machine is not the agent's
  [[nodiscard]] Expected<std::string> log_tail(std::size_t bytes_max = 64 * 1024); // whole lines

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace ductl::agent
