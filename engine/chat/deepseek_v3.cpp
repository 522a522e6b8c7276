// DeepSeek-V3 (before V3.1): no newline anywhere, all system messages joined at the front.
#include "engine/chat/families.hpp"
#include "engine/chat/prompt.hpp"

namespace ductl::engine {
namespace {

constexpr std::string_view kName = "deepseek-v3";
constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>", kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kUser = "<｜User｜>", kAssistant = "<｜Assistant｜>";

class DeepseekV3 final : public ChatFormat {
public:
  DeepseekV3(const Tokenizer& tokenizer, Markers markers, std::vector<int> stops)
      : tokenizer_(tokenizer), markers_(std::move(markers)), stops_(std::move(stops)) {}

  std::string_view name() const override { return kName; }
  std::vector<int> stop_tokens() const override { return stops_; }
  Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const override {
    if (auto ok = check_roles(messages); !ok) return tl::unexpected(ok.error());
    Prompt prompt(tokenizer_);
    prompt.marker(markers_[kBegin]);
    std::string_view between;
    for (const ChatMessage& message : messages) {
      if (message.role != "system") continue;
      prompt.text(between).text(message.content);
      between = "\n\n";
    }
    for (const ChatMessage& message : messages) {
      if (message.role == "user") prompt.marker(markers_[kUser]).text(message.content);
      if (message.role == "assistant") prompt.marker(markers_[kAssistant]).text(message.content).marker(markers_[kEnd]);
    }
    return prompt.marker(markers_[kAssistant]).take();
  }

private:
  const Tokenizer& tokenizer_;
  Markers markers_;
  std::vector<int> stops_;
};

} // namespace

MadeFormat make_deepseek_v3(const Tokenizer& tokenizer, std::vector<int> stop_tokens) {
  auto markers = Markers::find(tokenizer, kName, {kBegin, kEnd, kUser, kAssistant});
  if (!markers) return tl::unexpected(markers.error());
  stop_tokens = joined(std::move(stop_tokens), {(*markers)[kEnd]});
  return std::make_unique<DeepseekV3>(tokenizer, std::move(*markers), std::move(stop_tokens));
}

} // namespace ductl::engine
