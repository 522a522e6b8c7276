#include "ductl/commands/chat_api.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

using nlohmann::json;

constexpr std::size_t kShownMax = 100; // of a body that makes no sense

// Any type may stand anywhere in a peer's JSON.
std::string text_at(const json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int count_at(const json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  const bool fits = found != object.end() && found->is_number_unsigned() && found->get<std::uint64_t>() <= 1u << 30;
  return fits ? found->get<int>() : 0;
}

const json& at(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

const json& first(const json& array) {
  static const json kNothing;
  return array.is_array() && !array.empty() ? array.front() : kNothing;
}

// "D0304", when it is one of the agents' or the engine's.
std::optional<ErrorCode> named_code(const std::string& name) {
  int number = 0;
  if (name.size() != 5 || name.front() != 'D') return std::nullopt;
  const auto [end, status] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (status != std::errc{} || end != name.data() + name.size() || number < 300 || number >= 500) return std::nullopt;
  return static_cast<ErrorCode>(number);
}

// Enough of a page to recognise whose it is.
std::string first_line(std::string_view body) {
  const std::size_t begin = std::min(body.find_first_not_of(" \t\r\n"), body.size());
  const std::string_view rest = body.substr(begin);
  const std::string_view line = rest.substr(0, std::min(rest.find_first_of("\r\n"), kShownMax));
  return line.empty() ? "no body" : fmt::format("\"{}\"", line);
}

Error engine_error(const json& error) {
  std::string message = text_at(error, "message");
  if (message.empty()) message = "the engine gave no reason: " + error.dump().substr(0, kShownMax);
  std::string next = text_at(error, "next");
  if (next.empty()) next = "`ductl status` shows what is missing, `ductl up` brings it back";
  const ErrorCode code = named_code(text_at(error, "ductl_code")).value_or(ErrorCode::kEngineAnswer);
  return {code, std::move(message), text_at(error, "param"), std::move(next), {}};
}

} // namespace

std::string request_body(const ChatRequest& request) {
  json body{{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"messages", json::array()}};
  for (const ChatMessage& message : request.messages)
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  const ChatSampling& sampling = request.sampling;
  const bool draws = sampling.temperature || sampling.top_p || sampling.top_k || sampling.min_p || sampling.seed;
  if (!draws) body["temperature"] = 0;
  const auto put = [&](const char* key, const auto& value) {
    if (value) body[key] = *value;
  };
  put("temperature", sampling.temperature);
  put("top_p", sampling.top_p);
  put("top_k", sampling.top_k);
  put("min_p", sampling.min_p);
  put("seed", sampling.seed);
  put("repetition_penalty", sampling.repetition_penalty);
  put("max_tokens", sampling.tokens_max);
  if (request.token_times) body["ductl_token_times"] = true;
  // What is typed or piped in may not be UTF-8; JSON must be.
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool AnswerReader::feed(std::string_view bytes) {
  const bool good = parser_.feed(bytes, [this](const SseEvent& event) { take(event); });
  if (!good && !error_)
    error_ = Error{ErrorCode::kEngineAnswer, "the answer is not an event stream", {}, "is this the port of duck-engine?", {}};
  return !error_ && !done_;
}

void AnswerReader::take(const SseEvent& event) {
  if (done_ || error_) return;
  if (event.data == "[DONE]") {
    done_ = true;
    return;
  }
  const json chunk = json::parse(event.data, nullptr, false);
  if (chunk.is_discarded()) {
    error_ = Error{ErrorCode::kEngineAnswer,
                   "an event of the answer is not JSON: " + event.data.substr(0, kShownMax),
                   {},
                   "is this the port of duck-engine?",
                   {}};
    return;
  }
  const json& error = at(chunk, "error");
  if (error.is_object() || event.type == "error") {
    error_ = engine_error(error.is_object() ? error : chunk);
    return;
  }
  const json& choice = first(at(chunk, "choices"));
  if (const std::string text = text_at(at(choice, "delta"), "content"); !text.empty()) {
    answer_.text += text;
    if (on_text_) on_text_(text);
  }
  if (std::string reason = text_at(choice, "finish_reason"); !reason.empty()) answer_.finish_reason = std::move(reason);
  if (const json& usage = at(chunk, "usage"); usage.is_object()) {
    answer_.input_tokens = count_at(usage, "prompt_tokens");
    answer_.output_tokens = count_at(usage, "completion_tokens");
  }
  const json& ours = at(chunk, "ductl");
  if (std::string line = text_at(ours, "stats_line"); !line.empty()) answer_.stats_line = std::move(line);
  if (const json& stats = at(ours, "stats"); stats.is_object()) answer_.stats_json = stats.dump();
  if (std::string csv = text_at(ours, "token_csv"); !csv.empty()) answer_.token_csv = std::move(csv);
}

Expected<Answer> AnswerReader::finish() {
  if (error_) return tl::unexpected(*error_);
  if (!done_)
    return fail(ErrorCode::kEngineAnswer, "the answer broke off: the engine closed the connection", {},
                "`ductl status` tells whether it still runs; `ductl up` starts it again");
  return answer_;
}

Error error_of_body(long status, std::string_view body) {
  const json document = json::parse(body, nullptr, false);
  const json& error = at(document, "error"); // what is no JSON is no object either
  constexpr long kUnavailable = 503;
  if (error.is_object()) {
    Error out = engine_error(error);
    const std::string stage = text_at(error, "stage");
    if (status == kUnavailable) {
      out.code = ErrorCode::kEngineUnreachable;
      out.message = fmt::format("the engine is not ready: {}{}", out.message, stage.empty() ? "" : " (" + stage + ")");
      if (text_at(error, "next").empty()) out.next = "wait a moment and try again; `ductl status` shows how far it is";
    } else if (status < 500) {
      if (out.code == ErrorCode::kEngineAnswer) out.code = ErrorCode::kRequestValue;
      out.next = text_at(error, "next");
      if (const std::string end = "; " + out.next; !out.next.empty() && out.message.ends_with(end))
        out.message.resize(out.message.size() - end.size());
    }
    return out;
  }
  return {ErrorCode::kEngineAnswer,
          fmt::format("what answers there is no duck-engine: HTTP {} with {}", status, first_line(body)),
          {},
          "is this the port of duck-engine?",
          {}};
}

} // namespace ductl::commands
