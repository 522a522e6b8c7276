// What the families share: building a prompt of markers and text, checking roles, dropping a past answer's reasoning.
#pragma once

#include "engine/chat/chat_format.hpp"

#include <map>

namespace ductl::engine {

// The ids of a family's markers, looked up once.
class Markers {
public:
  // kChatFormat naming the first marker that the tokenizer lacks.
  [[nodiscard]] static Expected<Markers> find(const Tokenizer& tokenizer, std::string_view format,
                                              std::initializer_list<std::string_view> texts);
  [[nodiscard]] int operator[](std::string_view text) const; // must be one that was asked for

private:
  std::map<std::string, int, std::less<>> ids_;
};

// Text between two markers is encoded in one go, as the tokenizer would see it in the whole prompt.
class Prompt {
public:
  explicit Prompt(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  Prompt& marker(int id);
  Prompt& text(std::string_view text);
  [[nodiscard]] std::vector<int> take();

private:
  void encode_text();

  const Tokenizer& tokenizer_;
  std::vector<int> ids_;
  std::string text_;
};

// Known roles only, and the user speaks last: else kRequestValue.
[[nodiscard]] Expected<void> check_roles(std::span<const ChatMessage> messages);

// What follows the last "</think>", without the newlines at its beginning; the whole text where there is none.
[[nodiscard]] std::string_view without_reasoning(std::string_view answer);

// `ids` and those of `more` that aren't among them.
[[nodiscard]] std::vector<int> joined(std::vector<int> ids, std::initializer_list<int> more);

} // namespace ductl::engine
