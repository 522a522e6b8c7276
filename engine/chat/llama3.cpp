// Llama 3 Instruct (not 3.1 and later, whose prompts carry dates): headers of roles, contents trimmed.
#include "engine/chat/families.hpp"
#include "engine/chat/prompt.hpp"

namespace ductl::engine {
namespace {

constexpr std::string_view kName = "llama3";
constexpr std::string_view kBegin = "<|begin_of_text|>", kTurnEnd = "<|eot_id|>";
constexpr std::string_view kHeader = "<|start_header_id|>", kHeaderEnd = "<|end_header_id|>";

std::string_view trimmed(std::string_view text) { // as Jinja's trim does for ASCII
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

class Llama3 final : public ChatFormat {
public:
  Llama3(const Tokenizer& tokenizer, Markers markers, std::vector<int> stops)
      : tokenizer_(tokenizer), markers_(std::move(markers)), stops_(std::move(stops)) {}

  std::string_view name() const override { return kName; }
  std::vector<int> stop_tokens() const override { return stops_; }
  Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const override {
    if (auto ok = check_roles(messages); !ok) return tl::unexpected(ok.error());
    Prompt prompt(tokenizer_);
    prompt.marker(markers_[kBegin]);
    for (const ChatMessage& message : messages) {
      header(prompt, message.role);
      prompt.text(trimmed(message.content)).marker(markers_[kTurnEnd]);
    }
    header(prompt, "assistant");
    return prompt.take();
  }

private:
  void header(Prompt& prompt, std::string_view role) const {
    prompt.marker(markers_[kHeader]).text(role).marker(markers_[kHeaderEnd]).text("\n\n");
  }

  const Tokenizer& tokenizer_;
  Markers markers_;
  std::vector<int> stops_;
};

} // namespace

MadeFormat make_llama3(const Tokenizer& tokenizer, std::vector<int> stop_tokens) {
  auto markers = Markers::find(tokenizer, kName, {kBegin, kTurnEnd, kHeader, kHeaderEnd});
  if (!markers) return tl::unexpected(markers.error());
  stop_tokens = joined(std::move(stop_tokens), {(*markers)[kTurnEnd]});
  return std::make_unique<Llama3>(tokenizer, std::move(*markers), std::move(stop_tokens));
}

} // namespace ductl::engine
