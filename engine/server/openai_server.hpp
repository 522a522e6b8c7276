// The OpenAI-compatible HTTP API (docs/api.md): POST /v1/chat/completions, GET /v1/models, GET /health, GET /v1/stats.
// JSON is parsed here and only C++ types travel inward.
#pragma once

#include "engine/session/generator.hpp"
#include "netboot/http/http_server.hpp"

#include <memory>

namespace ductl::engine {

struct ApiOptions {
  std::uint32_t address = 0x7f000001;
  std::uint16_t port = 0;
  std::vector<std::string> keys; // empty only on loopback; a non-loopback bind without a key is refused
};

class OpenAiServer {
public:
  // `generator` may be null at first: /health and everything else answer 503 with `stage` until ready() is called.
  [[nodiscard]] static Expected<std::unique_ptr<OpenAiServer>> start(const ApiOptions& options);
  virtual ~OpenAiServer() = default;
  virtual void set_stage(std::string stage) = 0;
  virtual void ready(Generator& generator) = 0; // must outlive the server
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  virtual void stop() = 0;
};

} // namespace ductl::engine
