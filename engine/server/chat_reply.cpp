#include "engine/server/chat_reply.hpp"

#include "engine/server/stats_json.hpp"

#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

using nlohmann::json;

// The generator gives whole characters; a fault there must not end in an exception here.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }
std::string event(const json& value) { return "data: " + dump(value) + "\n\n"; }

const char* finish_reason(FinishReason reason) { return reason == FinishReason::Length ? "length" : "stop"; }

json usage(const GenerationStats& stats) {
  return {{"prompt_tokens", stats.input_tokens},
          {"completion_tokens", stats.output_tokens},
          {"total_tokens", stats.input_tokens + stats.output_tokens},
          {"prompt_tokens_details", {{"cached_tokens", stats.cached_tokens}}}};
}

} // namespace

ChatReply::ChatReply(const ChatRequest& request, std::string model, std::string id, std::int64_t created)
    : include_usage_(request.include_usage),
      token_times_(request.token_times),
      model_(std::move(model)),
      id_(std::move(id)),
      created_(created) {}

json ChatReply::head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

json ChatReply::statistics(const GenerationStats& stats) const {
  json out = {{"stats_line", stats.line()}, {"stats", stats_json(stats)}};
  if (token_times_) out["token_csv"] = stats.csv();
  return out;
}

std::string ChatReply::whole(const GenerateResult& result) const {
  json out = head("chat.completion");
  out["choices"] = json::array({{{"index", 0},
                                 {"message", {{"role", "assistant"}, {"content", result.text}}},
                                 {"logprobs", nullptr},
                                 {"finish_reason", finish_reason(result.finish)}}});
  out["usage"] = usage(result.stats);
  out["ductl"] = statistics(result.stats);
  return dump(out);
}

std::string ChatReply::chunk(json delta, const GenerateResult* end) const {
  json out = head("chat.completion.chunk");
  const json reason = end == nullptr ? json() : json(finish_reason(end->finish));
  out["choices"] = json::array({{{"index", 0}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", reason}}});
  if (include_usage_) out["usage"] = nullptr; // OpenAI's rule: the key is in every chunk once it was asked for
  if (end != nullptr) out["ductl"] = statistics(end->stats);
  return event(out);
}

std::string ChatReply::role_event() const { return chunk({{"role", "assistant"}, {"content", ""}}, nullptr); }
std::string ChatReply::text_event(std::string_view text) const { return chunk({{"content", text}}, nullptr); }
std::string ChatReply::finish_event(const GenerateResult& result) const { return chunk(json::object(), &result); }

std::string ChatReply::usage_event(const GenerateResult& result) const {
  if (!include_usage_) return {};
  json out = head("chat.completion.chunk");
  out["choices"] = json::array();
  out["usage"] = usage(result.stats);
  return event(out);
}

std::string ChatReply::error_event(const ApiError& error) { return "event: error\n" + event(error.json()); }

} // namespace ductl::engine
