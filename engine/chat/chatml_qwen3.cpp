// Qwen3: ChatML without a system message of its own. With thinking on (the model's default) the model opens <think> itself;
// with it off the prompt holds an empty thought. Past answers are given without their reasoning, as in training.
#include "engine/chat/chatml.hpp"
#include "engine/chat/families.hpp"

namespace ductl::engine {
namespace {

constexpr std::string_view kName = "qwen3", kNameNoThink = "qwen3-no-think";

struct EmptyThought {
  int begin, end; // <think>, </think>
};

class ChatMlQwen3 final : public ChatFormat {
public:
  ChatMlQwen3(const Tokenizer& tokenizer, ChatMlMarkers markers, std::vector<int> stops, std::optional<EmptyThought> thought)
      : tokenizer_(tokenizer), markers_(markers), stops_(std::move(stops)), thought_(thought) {}

  std::string_view name() const override { return thought_ ? kNameNoThink : kName; }
  std::vector<int> stop_tokens() const override { return stops_; }
  Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const override {
    if (auto ok = check_roles(messages); !ok) return tl::unexpected(ok.error());
    Prompt prompt(tokenizer_);
    for (const ChatMessage& message : messages) {
      const bool answer = message.role == "assistant";
      chatml_turn(prompt, markers_, message.role, answer ? without_reasoning(message.content) : message.content);
    }
    chatml_answer(prompt, markers_);
    if (thought_) prompt.marker(thought_->begin).text("\n\n").marker(thought_->end).text("\n\n");
    return prompt.take();
  }

private:
  const Tokenizer& tokenizer_;
  ChatMlMarkers markers_;
  std::vector<int> stops_;
  std::optional<EmptyThought> thought_;
};

} // namespace

MadeFormat make_chatml_qwen3(const Tokenizer& tokenizer, std::vector<int> stop_tokens, Thinking thinking) {
  const auto markers = find_chatml(tokenizer, thinking == Thinking::On ? kName : kNameNoThink);
  if (!markers) return tl::unexpected(markers.error());
  std::optional<EmptyThought> thought;
  if (thinking == Thinking::Off) {
    const auto found = Markers::find(tokenizer, kNameNoThink, {"<think>", "</think>"});
    if (!found) return tl::unexpected(found.error());
    thought = EmptyThought{(*found)["<think>"], (*found)["</think>"]};
  }
  return std::make_unique<ChatMlQwen3>(tokenizer, *markers, chatml_stops(std::move(stop_tokens), *markers), thought);
}

} // namespace ductl::engine
