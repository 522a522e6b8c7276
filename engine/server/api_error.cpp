#include "engine/server/api_error.hpp"

#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

int status_of(const Error& error) {
  switch (error.code) {
  case ErrorCode::kQueueFull: return 429;
  case ErrorCode::kRequestValue:
  case ErrorCode::kContextLength: return 400;
  case ErrorCode::kAgentUnreachable:
  case ErrorCode::kAgentRefused:
  case ErrorCode::kAgentVersion:
  case ErrorCode::kDuckDied:
  case ErrorCode::kFlockEpoch:
  case ErrorCode::kCancelled: // by the server's own end; a peer that left reads nothing
  case ErrorCode::kHostMemory: return 503;
  default: return 500;
  }
}

const char* type_of(int status) {
  switch (status) {
  case 401: return "authentication_error";
  case 403: return "permission_error";
  case 429: return "rate_limit_error";
  case 503: return "service_unavailable_error";
  default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

nlohmann::json text_or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

} // namespace

nlohmann::json ApiError::json() const {
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", text_or_null(param)},
            {"code", text_or_null(code)},
            {"ductl_code", text_or_null(ductl_code)},
            {"next", text_or_null(next)}}}};
}

ApiError to_api_error(const Error& error) {
  ApiError out;
  out.status = status_of(error);
  out.type = type_of(out.status);
  out.ductl_code = error.code_name();
  out.code = error.code == ErrorCode::kContextLength ? "context_length_exceeded"
             : error.code == ErrorCode::kQueueFull   ? "queue_full"
                                                     : out.ductl_code;
  // Clients of OpenAI's show only the message; ours takes the next step off its end again.
  out.message = error.message;
  if (out.status == 400) {
    out.param = error.place;
    out.next = error.next;
    if (!error.next.empty()) out.message += "; " + error.next;
  } else {
    if (!error.place.empty()) out.message += " (" + error.place + ")";
    out.next = error.next;
  }
  return out;
}

ApiError api_error(int status, std::string code, std::string message, std::string param) {
  return {status, type_of(status), std::move(code), std::move(message), std::move(param), {}, {}};
}

} // namespace ductl::engine
