// Errors as OpenAI's clients read them.
#pragma once

#include "inventory/error.hpp"

#include <nlohmann/json_fwd.hpp>

namespace ductl::engine {

struct ApiError {
  int status = 500;
  std::string type;    // invalid_request_error, authentication_error, ...
  std::string code;    // OpenAI's word where it has one, else ductl's ("D0304")
  std::string message; // with the place; for a fault of the request with the next step too
  std::string param;   // the field of the request, "" when it is none
  std::string ductl_code, next;

  [[nodiscard]] nlohmann::json json() const; // {"error": {...}}
};

[[nodiscard]] ApiError to_api_error(const Error& error);
// One that the API itself finds; `status` decides the type.
[[nodiscard]] ApiError api_error(int status, std::string code, std::string message, std::string param = {});

} // namespace ductl::engine
