// POST /v1/chat/completions.
#pragma once

#include "engine/server/api_error.hpp"
#include "engine/server/api_state.hpp"
#include "netboot/http/http_server.hpp"

#include <chrono>

namespace ductl::engine {

void send_error(http::Response& response, const ApiError& error);

class ChatEndpoint {
public:
  ChatEndpoint(ApiState& state, int generations_max, std::chrono::milliseconds ping_interval)
      : state_(state), generations_max_(generations_max), ping_interval_(ping_interval) {}

  // Blocks until the answer is complete or the peer has gone.
  void answer(Generator& generator, const http::Request& request, http::Response& response);

private:
  ApiState& state_;
  int generations_max_;
  std::chrono::milliseconds ping_interval_;
};

} // namespace ductl::engine
