// The body of POST /v1/chat/completions, read and checked. A pure function, fuzzed.
#pragma once

#include "engine/chat/chat_format.hpp"
#include "engine/sampler.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::engine {

struct ChatRequest {
  std::string model; // empty: whatever is served
  std::vector<ChatMessage> messages;
  SamplingParams sampling{.temperature = 1}; // OpenAI's default; seed: see below
  std::optional<std::uint64_t> seed;         // none: the server draws one
  int output_tokens_max = 0;                 // 0: up to the context
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false; // stream_options.include_usage
  bool token_times = false;   // ductl_token_times
};

// kRequestValue with the field's name in `place`: a wrong value, or a field that would change the answer and isn't supported.
// Unknown fields that change nothing are ignored. Roles and their order are the chat format's matter.
[[nodiscard]] Expected<ChatRequest> parse_chat_request(std::string_view body);

} // namespace ductl::engine
