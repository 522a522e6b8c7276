// DeepSeek-V3.1 and V3.2: every user message is followed by the assistant's marker and </think>, except that with thinking
// on the last one is followed by <think>. Past answers are given without their reasoning.
#include "engine/chat/families.hpp"
#include "engine/chat/prompt.hpp"

namespace ductl::engine {
namespace {

constexpr std::string_view kName = "deepseek-v3.2", kNameThink = "deepseek-v3.2-think";
constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>", kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kUser = "<｜User｜>", kAssistant = "<｜Assistant｜>";
constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";

class DeepseekV32 final : public ChatFormat {
public:
  DeepseekV32(const Tokenizer& tokenizer, Markers markers, std::vector<int> stops, Thinking thinking)
      : tokenizer_(tokenizer), markers_(std::move(markers)), stops_(std::move(stops)), thinking_(thinking) {}

  std::string_view name() const override { return thinking_ == Thinking::On ? kNameThink : kName; }
  std::vector<int> stop_tokens() const override { return stops_; }
  Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const override {
    if (auto ok = check_roles(messages); !ok) return tl::unexpected(ok.error());
    Prompt prompt(tokenizer_);
    prompt.marker(markers_[kBegin]);
    for (const ChatMessage& message : messages) {
      const bool last = &message == &messages.back(); // the user's, by check_roles()
      if (message.role == "system") prompt.text(message.content);
      if (message.role == "assistant") prompt.text(without_reasoning(message.content)).marker(markers_[kEnd]);
      if (message.role == "user") {
        prompt.marker(markers_[kUser]).text(message.content).marker(markers_[kAssistant]);
        prompt.marker(markers_[last && thinking_ == Thinking::On ? kThink : kThinkEnd]);
      }
    }
    return prompt.take();
  }

private:
  const Tokenizer& tokenizer_;
  Markers markers_;
  std::vector<int> stops_;
  Thinking thinking_;
};

} // namespace

MadeFormat make_deepseek_v32(const Tokenizer& tokenizer, std::vector<int> stop_tokens, Thinking thinking) {
  const std::string_view name = thinking == Thinking::On ? kNameThink : kName;
  auto markers = Markers::find(tokenizer, name, {kBegin, kEnd, kUser, kAssistant, kThink, kThinkEnd});
  if (!markers) return tl::unexpected(markers.error());
  stop_tokens = joined(std::move(stop_tokens), {(*markers)[kEnd]});
  return std::make_unique<DeepseekV32>(tokenizer, std::move(*markers), std::move(stop_tokens), thinking);
}

} // namespace ductl::engine
