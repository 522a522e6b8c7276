// The body of POST /v1/chat/completions. What is taken is within the limits that the rest relies on.
#include "engine/server/chat_request.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = ductl::engine::parse_chat_request({reinterpret_cast<const char*>(data), size});
  if (!request) return request.error().message.empty() ? std::abort(), 0 : 0;
  if (request->messages.empty() || request->output_tokens_max < 0) std::abort();
  if (!ductl::engine::check(request->sampling)) std::abort();
  for (const std::string& stop : request->stop) {
    if (stop.empty() || stop.size() > 1024) std::abort();
  }
  return 0;
}
