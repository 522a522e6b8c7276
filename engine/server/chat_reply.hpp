// Replies of /v1/chat/completions as bytes: whole ones, and the events of a stream.
#pragma once

#include "engine/server/api_error.hpp"
#include "engine/server/chat_request.hpp"
#include "engine/session/generator.hpp"

#include <string>
#include <string_view>

namespace ductl::engine {

class ChatReply {
public:
  ChatReply(const ChatRequest& request, std::string model, std::string id, std::int64_t created);

  [[nodiscard]] std::string whole(const GenerateResult& result) const; // a JSON text

  // Server-sent events, each with its blank line.
  [[nodiscard]] std::string role_event() const;
  [[nodiscard]] std::string text_event(std::string_view text) const; // text is not empty
  [[nodiscard]] std::string finish_event(const GenerateResult& result) const;
  [[nodiscard]] std::string usage_event(const GenerateResult& result) const; // "" unless the request asked for it
  [[nodiscard]] static std::string done_event() { return "data: [DONE]\n\n"; }
  [[nodiscard]] static std::string error_event(const ApiError& error);
  [[nodiscard]] static std::string ping() { return ":\n\n"; } // a comment: clients drop it

private:
  [[nodiscard]] nlohmann::json head(const char* object) const;
  [[nodiscard]] nlohmann::json statistics(const GenerationStats& stats) const;
  [[nodiscard]] std::string chunk(nlohmann::json delta, const GenerateResult* end) const;

  bool include_usage_, token_times_;
  std::string model_, id_;
  std::int64_t created_;
};

} // namespace ductl::engine
