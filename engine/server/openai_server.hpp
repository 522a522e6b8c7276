// The OpenAI-compatible HTTP API (docs/api.md): POST /v1/chat/completions, GET /v1/models, GET /health, GET /v1/stats.
// JSON is parsed here and only C++ types travel inward.
#pragma once

#include "engine/session/generator.hpp"
#include "netboot/http/http_server.hpp"

#include <chrono>
#include <memory>

namespace ductl::engine {

struct ApiOptions {
  std::uint32_t address = 0x7f000001;
  std::uint16_t port = 0;
  std::vector<std::string> keys = {};              // empty only on loopback; a non-loopback bind without a key is refused
  int generations_max = 32;                        // running and queued; beyond that 429
  std::chrono::milliseconds ping_interval{15'000}; // longest silence of a stream
};

// Thread-safe. A request is answered by a thread of the HTTP server; its generation runs on a thread of its own, so that
// pings, and cancelling when the peer leaves, never wait for a token.
class OpenAiServer {
public:
  // Until ready() is called /health and everything else answer 503 with `stage`. kAddressInUse as http::Server::start.
  [[nodiscard]] static Expected<std::unique_ptr<OpenAiServer>> start(const ApiOptions& options);
  virtual ~OpenAiServer() = default; // stop()s
  virtual void set_stage(std::string stage) = 0;
  virtual void ready(Generator& generator) = 0; // must outlive the server
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Cancels what is being generated and returns when every handler has ended.
  virtual void stop() = 0;
};

} // namespace ductl::engine
