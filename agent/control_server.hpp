// The agent's control plane: HTTP verbs (docs/control.md) onto the slice store and the data-plane server.
//
// Every verb but hello needs the flock key and this control protocol, checked from a request's head before its body is
// taken in. Handlers run on the HTTP server's workers; the store and the expert server have their own locks.
#pragma once

#include "agent/expert_server.hpp"
#include "agent/store/slice_store.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace ductl::agent {

struct ControlServerOptions {
  std::string name, flock, key;
  std::uint32_t address = 0; // host byte order
  std::uint16_t port = 0;    // 0 = kernel-chosen
  std::uint16_t data_port = 0;
  std::string boot_id, kernels;
  int threads = 1; // that compute
  std::uint64_t memory_limit_bytes = ~std::uint64_t{0};
  std::filesystem::path log; // shown by GET /v1/log
};

class ControlServer {
public:
  // `power_off` is called (on a worker thread) after the answer to POST /v1/power-off was given. Store and expert server
  // must outlive this.
  [[nodiscard]] static Expected<std::unique_ptr<ControlServer>>
  start(const ControlServerOptions& options, SliceStore& store, ExpertServer& expert_server, std::function<void()> power_off);
  virtual ~ControlServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  virtual void stop() = 0;
};

} // namespace ductl::agent
