// The agent's control plane: HTTP verbs (docs/control.md) onto the slice store and the data-plane server.
//
// Every verb but hello, health and adopt needs the flock key and this control protocol, checked from a request's head before its
// body is taken in. Handlers run on the HTTP server's workers; the store and the expert server have their own locks.
#pragma once

#include "agent/expert_server.hpp"
#include "agent/health/health_watch.hpp"
#include "agent/membership.hpp"
#include "agent/store/slice_store.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ductl::agent {

// What a netbooted duck has beside: the machine is its own.
struct OwnMachine {
  std::string mac, image;                                // as hello tells them
  std::function<Expected<std::string>(std::size_t)> log; // the kernel's, which the agent writes into; at most so many bytes
  std::function<void(std::int64_t time_ms)> set_clock;   // since 1970
  std::function<void()> reboot;                          // called after the answer to POST /v1/reboot was given
};

struct ControlServerOptions {
  std::uint32_t address = 0; // host byte order
  std::uint16_t port = 0;    // 0 = kernel-chosen
  std::uint16_t data_port = 0;
  std::string boot_id, kernels;
  int threads = 1; // that compute
  std::uint64_t memory_limit_bytes = ~std::uint64_t{0};
  std::filesystem::path log;     // shown by GET /v1/log
  std::optional<OwnMachine> own; // then `log` is not looked at
};

class ControlServer {
public:
  // `power_off` is called (on a worker thread) after the answer to POST /v1/power-off was given. Membership, health,
  // store and expert server must outlive this.
  [[nodiscard]] static Expected<std::unique_ptr<ControlServer>> start(const ControlServerOptions& options, Membership& membership,
                                                                      health::HealthWatch& health, SliceStore& store,
                                                                      ExpertServer& expert_server,
                                                                      std::function<void()> power_off);
  virtual ~ControlServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  virtual void stop() = 0;
};

} // namespace ductl::agent
