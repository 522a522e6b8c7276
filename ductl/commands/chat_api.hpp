// The engine's OpenAI-compatible API as its client sees it: the request's body, and an answer from its events. No I/O.
#pragma once

#include "ductl/commands/sse_parser.hpp"
#include "inventory/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::commands {

struct ChatMessage {
  std::string role; // system, user, assistant
  std::string content;
};

struct ChatSampling { // what is not set is left to the engine
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  std::optional<int> tokens_max;
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  ChatSampling sampling;
  bool token_times = false;
};

// The body of POST /v1/chat/completions, streamed. Greedy (temperature 0) unless an option asks for a draw.
[[nodiscard]] std::string request_body(const ChatRequest& request);

struct Answer {
  std::string text;
  std::string finish_reason; // "stop", "length"
  int input_tokens = 0, output_tokens = 0;
  std::string stats_line; // as the engine counted
  std::string stats_json; // the same figures as a JSON object, as the engine gave it; "" when it gave none
  std::string token_csv;  // when asked for
  bool stopped = false;   // by the user
};

// Reads one streamed answer.
class AnswerReader {
public:
  explicit AnswerReader(std::function<void(std::string_view)> on_text) : on_text_(std::move(on_text)) {}
  // False once there is no use in reading on (an error, or the end).
  [[nodiscard]] bool feed(std::string_view bytes);
  // After the last byte: the answer, or the error that ended it. A stream without its end is an error.
  [[nodiscard]] Expected<Answer> finish();
  [[nodiscard]] const Answer& so_far() const { return answer_; }

private:
  void take(const SseEvent& event);

  std::function<void(std::string_view)> on_text_;
  SseParser parser_;
  Answer answer_;
  std::optional<Error> error_;
  bool done_ = false;
};

// The error of an answer that is no stream: {"error":{"message",...}} or anything else.
[[nodiscard]] Error error_of_body(long status, std::string_view body);

} // namespace ductl::commands
