#include "engine/server/chat_request.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 32;
constexpr std::size_t kStopsMax = 16, kStopBytesMax = 1024;

struct Refusal { // thrown within this file only
  std::string message, field, next;
};
[[noreturn]] void refuse(std::string message, std::string field, std::string next = {}) {
  throw Refusal{std::move(message), std::move(field), std::move(next)};
}

json parse_bounded(std::string_view body) {
  return json::parse(body, [](int depth, json::parse_event_t, json&) {
    if (depth > kDepthMax) refuse(fmt::format("the body nests deeper than {} levels", kDepthMax), "");
    return true;
  });
}

// Fields that would change the answer, and the values with which they don't. null is always such a value.
struct Unsupported {
  const char* field;
  std::vector<json> harmless;
};
const std::vector<Unsupported>& unsupported() {
  static const std::vector<Unsupported> fields = {
      {"tools", {json::array()}},
      {"tool_choice", {"none", "auto"}},
      {"functions", {json::array()}},
      {"function_call", {"none", "auto"}},
      {"response_format", {{{"type", "text"}}}},
      {"n", {1}},
      {"best_of", {1}},
      {"use_beam_search", {false}},
      {"length_penalty", {1}},
      {"logprobs", {false}},
      {"top_logprobs", {0}},
      {"prompt_logprobs", {}},
      {"logit_bias", {json::object()}},
      {"frequency_penalty", {0}},
      {"presence_penalty", {0}},
      {"typical_p", {1}},
      {"mirostat", {0}},
      {"modalities", {json::array({"text"})}},
      {"audio", {}},
      {"web_search_options", {}},
      {"grammar", {""}},
      {"json_schema", {}},
      {"guided_json", {}},
      {"guided_regex", {}},
      {"guided_choice", {}},
      {"guided_grammar", {}},
      {"structured_outputs", {}},
      {"min_tokens", {0}},
      {"ignore_eos", {false}},
      {"stop_token_ids", {json::array()}},
      {"bad_words", {json::array()}},
      {"allowed_token_ids", {}},
      {"echo", {false}},
      {"add_generation_prompt", {true}},
      {"continue_final_message", {false}},
      {"chat_template", {}},
      {"chat_template_kwargs", {json::object()}},
      {"enable_thinking", {}},
  };
  return fields;
}

void refuse_unsupported(const json& root) {
  for (const Unsupported& entry : unsupported()) {
    const auto found = root.find(entry.field);
    if (found == root.end() || found->is_null()) continue;
    if (std::find(entry.harmless.begin(), entry.harmless.end(), *found) != entry.harmless.end()) continue;
    refuse(fmt::format("{} is not supported by this server and would change the answer", entry.field), entry.field,
           fmt::format("leave {} out", entry.field));
  }
}

const json* find(const json& object, const char* key) { // nullptr where absent or null
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const json& object, const char* key, const std::string& field) {
  const json* value = find(object, key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(field + " is not true or false", field);
  return value->get<bool>();
}

// Narrowed only when it fits: 1e300 becomes infinity, which check() refuses by name.
void number(const json& root, const char* field, float& into) {
  const json* value = find(root, field);
  if (value == nullptr) return;
  if (!value->is_number()) refuse(fmt::format("{} is not a number", field), field);
  const double wide = value->get<double>();
  constexpr double kMax = std::numeric_limits<float>::max();
  into = wide > kMax    ? std::numeric_limits<float>::infinity()
         : wide < -kMax ? -std::numeric_limits<float>::infinity()
                        : static_cast<float>(wide);
}

std::optional<int> integer(const json& root, const char* field, int lowest) {
  const json* value = find(root, field);
  if (value == nullptr) return std::nullopt;
  constexpr int kMax = std::numeric_limits<int>::max();
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= kMax
                                                : value->is_number_integer() && value->get<std::int64_t>() >= lowest;
  if (!fits || value->get<std::int64_t>() < lowest) {
    refuse(fmt::format("{} is not a whole number from {} to {}", field, lowest, kMax), field);
  }
  return value->get<int>();
}

std::string content_of(const json& message, const std::string& where) {
  const json* content = find(message, "content");
  const std::string field = where + ".content";
  if (content == nullptr) refuse(field + " is missing", field, "give the message's text");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) refuse(field + " is neither a string nor a list of parts", field);
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const json& part = (*content)[i];
    const std::string at = fmt::format("{}[{}]", field, i);
    const json* type = part.is_object() ? find(part, "type") : nullptr;
    if (type == nullptr || *type != "text") refuse(at + " is not a part of type \"text\"; this model reads only text", at);
    const json* piece = find(part, "text");
    if (piece == nullptr || !piece->is_string()) refuse(at + ".text is not a string", at);
    text += piece->get_ref<const std::string&>();
  }
  return text;
}

ChatMessage message_of(const json& message, const std::string& where) {
  if (!message.is_object()) refuse(where + " is not an object", where);
  const json* role = find(message, "role");
  if (role == nullptr || !role->is_string()) refuse(where + ".role is not a string", where + ".role");
  for (const char* calls : {"tool_calls", "function_call", "audio"}) {
    if (const json* value = find(message, calls); value != nullptr && !value->empty()) {
      refuse(fmt::format("{}.{} is not supported by this server", where, calls), fmt::format("{}.{}", where, calls));
    }
  }
  auto name = role->get<std::string>();
  if (name == "developer") name = "system"; // OpenAI's newer word for it
  return {std::move(name), content_of(message, where)};
}

std::vector<ChatMessage> messages_of(const json& root) {
  const json* list = find(root, "messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    refuse("messages is not a list of at least one message", "messages",
           R"(give "messages": [{"role": "user", "content": "..."}])");
  }
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list->size(); ++i) messages.push_back(message_of((*list)[i], fmt::format("messages[{}]", i)));
  return messages;
}

std::vector<std::string> stops_of(const json& root) {
  const json* stop = find(root, "stop");
  if (stop == nullptr) return {};
  const json list = stop->is_array() ? *stop : json::array({*stop});
  if (list.size() > kStopsMax) refuse(fmt::format("stop holds more than {} strings", kStopsMax), "stop");
  std::vector<std::string> stops;
  for (const json& item : list) {
    if (!item.is_string()) refuse("stop is neither a string nor a list of strings", "stop");
    stops.push_back(item.get<std::string>());
    if (stops.back().empty() || stops.back().size() > kStopBytesMax) {
      refuse(fmt::format("a stop string has {} bytes; 1 to {} are taken", stops.back().size(), kStopBytesMax), "stop");
    }
  }
  return stops;
}

void sampling_of(const json& root, ChatRequest& request) {
  number(root, "temperature", request.sampling.temperature);
  number(root, "top_p", request.sampling.top_p);
  number(root, "min_p", request.sampling.min_p);
  number(root, "repetition_penalty", request.sampling.repetition_penalty);
  request.sampling.top_k = std::max(integer(root, "top_k", -1).value_or(0), 0); // -1 is vLLM's word for all
  if (const json* seed = find(root, "seed")) {
    if (!seed->is_number_integer()) refuse("seed is not a whole number", "seed");
    request.seed =
        seed->is_number_unsigned() ? seed->get<std::uint64_t>() : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  }
  if (auto ok = check(request.sampling); !ok) refuse(ok.error().message, ok.error().place, ok.error().next);
}

ChatRequest request_of(const json& root) {
  if (!root.is_object()) refuse("the body is not a JSON object", "");
  refuse_unsupported(root);
  ChatRequest request;
  if (const json* model = find(root, "model")) {
    if (!model->is_string()) refuse("model is not a string", "model");
    request.model = model->get<std::string>();
  }
  request.messages = messages_of(root);
  sampling_of(root, request);
  const auto newer = integer(root, "max_completion_tokens", 1), older = integer(root, "max_tokens", 1);
  request.output_tokens_max = newer.value_or(older.value_or(0));
  request.stop = stops_of(root);
  request.stream = flag(root, "stream", "stream");
  request.token_times = flag(root, "ductl_token_times", "ductl_token_times");
  if (const json* options = find(root, "stream_options")) {
    if (!options->is_object()) refuse("stream_options is not an object", "stream_options");
    if (!request.stream) refuse("stream_options is given without stream", "stream_options", "set stream to true or leave it out");
    request.include_usage = flag(*options, "include_usage", "stream_options.include_usage");
  }
  return request;
}

} // namespace

Expected<ChatRequest> parse_chat_request(std::string_view body) {
  try {
    return request_of(parse_bounded(body));
  } catch (const Refusal& refusal) {
    return fail(ErrorCode::kRequestValue, refusal.message, refusal.field, refusal.next);
  } catch (const json::exception& error) {
    return fail(ErrorCode::kRequestValue, fmt::format("the body is not valid JSON: {}", error.what()));
  }
}

} // namespace ductl::engine
