#include "engine/chat/prompt.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace ductl::engine {

Expected<Markers> Markers::find(const Tokenizer& tokenizer, std::string_view format,
                                std::initializer_list<std::string_view> texts) {
  Markers markers;
  for (const std::string_view text : texts) {
    const std::optional<int> id = tokenizer.id_of(text);
    if (!id) {
      return fail(ErrorCode::kChatFormat,
                  fmt::format("the chat format {} needs the token {}, which this tokenizer lacks", format, text),
                  "tokenizer.json", "choose the format of this model's family with --chat-format");
    }
    markers.ids_.emplace(text, *id);
  }
  return markers;
}

int Markers::operator[](std::string_view text) const {
  const auto found = ids_.find(text);
  assert(found != ids_.end());
  return found->second;
}

Prompt& Prompt::marker(int id) {
  encode_text();
  ids_.push_back(id);
  return *this;
}

Prompt& Prompt::text(std::string_view text) {
  text_ += text;
  return *this;
}

std::vector<int> Prompt::take() {
  encode_text();
  return std::move(ids_);
}

void Prompt::encode_text() {
  const std::vector<int> ids = tokenizer_.encode(text_, SpecialTokens::Ignore);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  text_.clear();
}

Expected<void> check_roles(std::span<const ChatMessage> messages) {
  if (messages.empty()) return fail(ErrorCode::kRequestValue, "messages is empty", "messages", "give at least one user message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant") continue;
    return fail(ErrorCode::kRequestValue, fmt::format("the role \"{}\" is not known", role), fmt::format("messages[{}].role", i),
                "use system, user or assistant");
  }
  if (messages.back().role != "user") {
    return fail(ErrorCode::kRequestValue,
                fmt::format("the last message is from the {}; there is nothing to answer", messages.back().role),
                fmt::format("messages[{}].role", messages.size() - 1), "let the last message be the user's");
  }
  return {};
}

std::string_view without_reasoning(std::string_view answer) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t at = answer.rfind(kEnd);
  if (at == std::string_view::npos) return answer;
  answer.remove_prefix(at + kEnd.size());
  answer.remove_prefix(std::min(answer.find_first_not_of('\n'), answer.size()));
  return answer;
}

std::vector<int> joined(std::vector<int> ids, std::initializer_list<int> more) {
  for (const int id : more) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

} // namespace ductl::engine
