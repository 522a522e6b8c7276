#include "engine/chat/chat_format.hpp"

#include "engine/chat/families.hpp"

#include <fmt/format.h>

namespace ductl::engine {
namespace {

using Maker = MadeFormat (*)(const Tokenizer&, std::vector<int>);
struct NamedMaker {
  const char* name;
  Maker make;
};

constexpr NamedMaker kFormats[] = {
    {"chatml-smollm", make_chatml_smollm},
    {"qwen3", [](const Tokenizer& t, std::vector<int> stops) { return make_chatml_qwen3(t, std::move(stops), Thinking::On); }},
    {"qwen3-no-think",
     [](const Tokenizer& t, std::vector<int> stops) { return make_chatml_qwen3(t, std::move(stops), Thinking::Off); }},
    {"deepseek-v3", make_deepseek_v3},
    {"deepseek-v3.2",
     [](const Tokenizer& t, std::vector<int> stops) { return make_deepseek_v32(t, std::move(stops), Thinking::Off); }},
    {"deepseek-v3.2-think",
     [](const Tokenizer& t, std::vector<int> stops) { return make_deepseek_v32(t, std::move(stops), Thinking::On); }},
    {"llama3", make_llama3},
};

std::string known_names() { return fmt::format("{}", fmt::join(chat_format_names(), ", ")); }

// "" when the model type and the special tokens tell nothing.
std::string guess(const weights::ModelConfig& config, const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view token) { return tokenizer.id_of(token).has_value(); };
  switch (config.family) {
  case weights::Family::DeepseekV32: return "deepseek-v3.2";
  case weights::Family::DeepseekV3: // V3.1 and R1 have the thinking markers, V3 has placeholders at their ids
    return has("</think>") ? "deepseek-v3.2" : has("<｜User｜>") ? "deepseek-v3" : "";
  case weights::Family::Qwen3:
  case weights::Family::Qwen3Moe: return has("<|im_start|>") ? "qwen3" : "";
  case weights::Family::Llama:
    if (has("<|im_start|>")) return "chatml-smollm";
    return has("<|start_header_id|>") && !has("<|python_tag|>") ? "llama3" : ""; // <|python_tag|>: 3.1 and later
  }
  return "";
}

} // namespace

std::vector<std::string> chat_format_names() {
  std::vector<std::string> names;
  for (const NamedMaker& format : kFormats) names.emplace_back(format.name);
  return names;
}

Expected<std::unique_ptr<ChatFormat>> choose_chat_format(const weights::ModelConfig& config, const Tokenizer& tokenizer,
                                                         const std::string& name) {
  const std::string wanted = name.empty() ? guess(config, tokenizer) : name;
  for (const NamedMaker& format : kFormats) {
    if (format.name == wanted) return format.make(tokenizer, config.eos_tokens);
  }
  if (!name.empty()) {
    return fail(ErrorCode::kChatFormat, fmt::format("there is no chat format \"{}\"", name),
                "model.chat_format, or --chat-format where it was given", "choose one of: " + known_names());
  }
  return fail(
      ErrorCode::kChatFormat,
      fmt::format("no chat format is known for model type \"{}\" with this tokenizer's special tokens", config.model_type),
      "tokenizer.json", "name one with --chat-format (or chat_format in [model]): " + known_names());
}

} // namespace ductl::engine
