// SmolLM and SmolLM2: ChatML with a system message of their own where the conversation brings none.
#include "engine/chat/chatml.hpp"
#include "engine/chat/families.hpp"

namespace ductl::engine {
namespace {

constexpr std::string_view kName = "chatml-smollm";
constexpr std::string_view kSystem = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

class ChatMlSmolLm final : public ChatFormat {
public:
  ChatMlSmolLm(const Tokenizer& tokenizer, ChatMlMarkers markers, std::vector<int> stops)
      : tokenizer_(tokenizer), markers_(markers), stops_(std::move(stops)) {}

  std::string_view name() const override { return kName; }
  std::vector<int> stop_tokens() const override { return stops_; }
  Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const override {
    if (auto ok = check_roles(messages); !ok) return tl::unexpected(ok.error());
    Prompt prompt(tokenizer_);
    if (messages.front().role != "system") chatml_turn(prompt, markers_, "system", kSystem);
    for (const ChatMessage& message : messages) chatml_turn(prompt, markers_, message.role, message.content);
    chatml_answer(prompt, markers_);
    return prompt.take();
  }

private:
  const Tokenizer& tokenizer_;
  ChatMlMarkers markers_;
  std::vector<int> stops_;
};

} // namespace

MadeFormat make_chatml_smollm(const Tokenizer& tokenizer, std::vector<int> stop_tokens) {
  const auto markers = find_chatml(tokenizer, kName);
  if (!markers) return tl::unexpected(markers.error());
  return std::make_unique<ChatMlSmolLm>(tokenizer, *markers, chatml_stops(std::move(stop_tokens), *markers));
}

} // namespace ductl::engine
